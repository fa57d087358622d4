/**
 * Fault injection for dev clusters: wraps ports and silently drops traffic of partitioned peers. Connections stay open,
 * so healing is instant.
 */
import { failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type {
  Address,
  ByteStream,
  Clock,
  Datagrams,
  Identity,
  Peer,
  StreamService,
  Streams,
} from '../../base/ports.ts';

type Cut = { readonly ids: ReadonlySet<NodeId>; readonly addresses: ReadonlySet<string> };

export class Chaos {
  readonly #clock: Clock;
  #cut: Cut = { ids: new Set(), addresses: new Set() };

  readonly #onChange: (peers: readonly Peer[]) => void;

  /** `onChange` receives each new partition, for ports of the membership thread. */
  constructor(clock: Clock, onChange: (peers: readonly Peer[]) => void = () => {}) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Cuts off exactly these peers; an empty list heals all links. */
  partitionFrom(peers: readonly Peer[]): void {
    this.#cut = { ids: new Set(peers.map((peer) => peer.id)), addresses: new Set(peers.map(addressKey)) };
    this.#onChange(peers);
  }

  /** Blocks the calling thread, as user code would that never yields. */
  blockLoop(durationMs: number): void {
    const untilMs = this.#clock.nowMs() + durationMs;
    while (this.#clock.nowMs() < untilMs);
  }

  get cut(): readonly NodeId[] {
    return [...this.#cut.ids];
  }

  datagrams(inner: Datagrams): Datagrams {
    return {
      send: (to, body) => {
        if (!this.#cut.ids.has(to.id)) inner.send(to, body);
      },
      receive: (handler) => inner.receive((from, body) => this.#isCut(from) || handler(from, body)),
      close: (done) => inner.close(done),
    };
  }

  streams(inner: Streams): Streams {
    return {
      request: (to, body, timeoutMs, done) => {
        if (!this.#isCutAddress(to)) return inner.request(to, body, timeoutMs, done);
        return this.#failLater(
          timeoutMs,
          () => done(failure('DEADLINE')),
          () => done(failure('CANCELLED')),
        );
      },
      notify: (to, body) => this.#isCutAddress(to) || inner.notify(to, body),
      drained: (to, done) => inner.drained(to, done),
      open: (to, opening, events) => {
        if (!this.#isCutAddress(to)) return inner.open(to, opening, events);
        this.#clock.schedule(0, () => events.ended(failure('UNREACHABLE')));
        return deadStream;
      },
      serve: (service) => inner.serve(this.#service(service)),
      watch: (handler) => inner.watch(handler),
      close: (done) => inner.close(done),
    };
  }

  #service(service: StreamService): StreamService {
    return {
      request: (from, body, remainingMs, reply) => {
        if (this.#isCut(from)) return;
        service.request(from, body, remainingMs, (outcome) => this.#isCut(from) || reply(outcome));
      },
      notify: (from, body) => this.#isCut(from) || service.notify(from, body),
      open: (from, opening, stream) => {
        if (this.#isCut(from)) stream.abort('cut off');
        return service.open(from, opening, this.#isCut(from) ? deadStream : stream);
      },
    };
  }

  /** Ends once, at the deadline or on cancel, and never before the caller has its handle. */
  #failLater(timeoutMs: number, onDeadline: () => void, onCancel: () => void): () => void {
    let ended = false;
    const stop = this.#clock.schedule(timeoutMs, () => {
      ended = true;
      onDeadline();
    });
    return () => {
      if (ended) return;
      ended = true;
      stop();
      this.#clock.schedule(0, onCancel);
    };
  }

  #isCut(from: Identity): boolean {
    return this.#cut.ids.has(from.id);
  }

  #isCutAddress(to: Address): boolean {
    return this.#cut.addresses.size > 0 && this.#cut.addresses.has(addressKey(to));
  }
}

const deadStream: ByteStream = { write: () => false, end: () => {}, abort: () => {} };

function addressKey({ host, port }: Address): string {
  return `${host} ${port}`;
}
