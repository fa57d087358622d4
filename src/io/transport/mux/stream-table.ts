/** All byte streams of one connection: opens, accepts, grants credit, fails them when the connection ends. */
import { failure, type Outcome, RemusterError } from '../../../base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../../base/ports.ts';
import { segmentKinds, openedByReceiverFlag } from './segment.ts';
import type { SendQueue } from './send-queue.ts';
import { StreamEndpoint, type StreamEndpointHost } from './stream-endpoint.ts';

const emptyBytes = new Uint8Array(0);

export type StreamTableOptions = {
  readonly queue: SendQueue;
  readonly streamsMax: number;
  readonly wake: () => void;
  /** Runs a callback of the user and catches its errors. Returns false if it threw. */
  guarded(run: () => void): boolean;
};

export class StreamTable {
  readonly #options: StreamTableOptions;
  readonly #host: StreamEndpointHost;
  readonly #openedHere = new Map<number, StreamEndpoint>();
  readonly #openedByPeer = new Map<number, StreamEndpoint>();
  readonly #owed = new Set<StreamEndpoint>();
  #lastId = 0;

  constructor(options: StreamTableOptions) {
    this.#options = options;
    this.#host = {
      queue: options.queue,
      wake: options.wake,
      guarded: (run) => options.guarded(run),
      onFinish: (end, outcome) => this.#remove(end, outcome),
    };
  }

  get count(): number {
    return this.#openedHere.size + this.#openedByPeer.size;
  }

  /** Undefined if there are too many streams. */
  open(opening: Uint8Array, events: ByteStreamEvents): ByteStream | undefined {
    if (this.count >= this.#options.streamsMax) return undefined;
    this.#lastId = (this.#lastId + 1) >>> 0;
    const end = new StreamEndpoint(this.#lastId, true, 0, this.#host);
    end.events = events;
    this.#openedHere.set(end.id, end);
    this.#options.queue.push(segmentKinds.open, 0, end.id, 0, opening);
    this.#options.wake();
    return end;
  }

  /** A stream that the peer opened. Undefined: it was refused with an abort. */
  accept(id: number, refusal: string | undefined): StreamEndpoint | undefined {
    if (this.#openedByPeer.has(id)) throw new RemusterError('MALFORMED', 'a stream is opened twice');
    const end = new StreamEndpoint(id, false, openedByReceiverFlag, this.#host);
    if (refusal !== undefined || this.count >= this.#options.streamsMax) {
      end.abort(refusal ?? 'too many streams');
      return undefined;
    }
    this.#openedByPeer.set(id, end);
    return end;
  }

  receive(kind: number, flags: number, id: number, argument: number, body: Uint8Array): void {
    const end = ((flags & openedByReceiverFlag) === 0 ? this.#openedByPeer : this.#openedHere).get(id);
    // The stream has ended here, and the peer sent this before it knew.
    if (end === undefined) return;
    if (kind === segmentKinds.data) {
      this.#owed.add(end);
      end.receive(body);
    } else if (kind === segmentKinds.credit) end.credit(argument);
    else if (kind === segmentKinds.end) end.receiveEnd();
    else end.finish(failure('CANCELLED', new TextDecoder().decode(body)));
  }

  /** Called after each frame: the delivered chunks are consumed, so their credit returns to the peer. */
  grantCredit(): void {
    if (this.#owed.size === 0) return;
    for (const end of this.#owed) {
      const bytes = end.takeOwedCredit();
      const flags = end.openedHere ? 0 : openedByReceiverFlag;
      if (bytes > 0) this.#options.queue.push(segmentKinds.credit, flags, end.id, bytes, emptyBytes);
    }
    this.#owed.clear();
    this.#options.wake();
  }

  failAll(outcome: Outcome<void>): void {
    for (const end of [...this.#openedHere.values(), ...this.#openedByPeer.values()]) end.finish(outcome);
  }

  #remove(end: StreamEndpoint, outcome: Outcome<void>): void {
    const table = end.openedHere ? this.#openedHere : this.#openedByPeer;
    if (table.get(end.id) === end) table.delete(end.id);
    const { events } = end;
    if (events !== undefined) queueMicrotask(() => this.#options.guarded(() => events.ended(outcome)));
  }
}
