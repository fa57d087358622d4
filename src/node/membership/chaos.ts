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

type Cut = { readonly ids: ReadonlySet<NodeId>; readonly places: ReadonlySet<string> };

export class Chaos {
  readonly #clock: Clock;
  #cut: Cut = { ids: new Set(), places: new Set() };

  readonly #also: (peers: readonly Peer[]) => void;

  /** `also` is told of each change: for ports that live elsewhere. */
  constructor(clock: Clock, also: (peers: readonly Peer[]) => void = () => {}) {
    this.#clock = clock;
    this.#also = also;
  }

  /** From now on exactly these peers are cut off; none heals everything. */
  partitionFrom(peers: readonly Peer[]): void {
    this.#cut = { ids: new Set(peers.map((peer) => peer.id)), places: new Set(peers.map(placeOf)) };
    this.#also(peers);
  }

  /** Holds the thread that calls it for so long, as user code would that never yields. */
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
      receive: (handler) => inner.receive((from, body) => this.#lost(from) || handler(from, body)),
      close: (done) => inner.close(done),
    };
  }

  streams(inner: Streams): Streams {
    return {
      request: (to, body, timeoutMs, done) => {
        if (!this.#lostAt(to)) return inner.request(to, body, timeoutMs, done);
        return this.#overdue(
          timeoutMs,
          () => done(failure('DEADLINE')),
          () => done(failure('CANCELLED')),
        );
      },
      notify: (to, body) => this.#lostAt(to) || inner.notify(to, body),
      drained: (to, done) => inner.drained(to, done),
      open: (to, opening, events) => {
        if (!this.#lostAt(to)) return inner.open(to, opening, events);
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
        if (this.#lost(from)) return;
        service.request(from, body, remainingMs, (outcome) => this.#lost(from) || reply(outcome));
      },
      notify: (from, body) => this.#lost(from) || service.notify(from, body),
      open: (from, opening, stream) => {
        if (this.#lost(from)) stream.abort('cut off');
        return service.open(from, opening, this.#lost(from) ? deadStream : stream);
      },
    };
  }

  /** Ends once: at the deadline, or earlier by cancelling. Never before the caller has its handle. */
  #overdue(timeoutMs: number, late: () => void, cancelled: () => void): () => void {
    let over = false;
    const stop = this.#clock.schedule(timeoutMs, () => {
      over = true;
      late();
    });
    return () => {
      if (over) return;
      over = true;
      stop();
      this.#clock.schedule(0, cancelled);
    };
  }

  #lost(from: Identity): boolean {
    return this.#cut.ids.has(from.id);
  }

  #lostAt(to: Address): boolean {
    return this.#cut.places.size > 0 && this.#cut.places.has(placeOf(to));
  }
}

const deadStream: ByteStream = { write: () => false, end: () => {}, abort: () => {} };

function placeOf({ host, port }: Address): string {
  return `${host} ${port}`;
}
