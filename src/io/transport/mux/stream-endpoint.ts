/**
 * One end of a byte stream: credit, unsent bytes, closed directions. Holds at most one window, because nothing is
 * accepted without credit.
 */
import { RemusterError, success, type Outcome } from '../../../base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../../base/ports.ts';
import { segmentKinds, writeSegment } from './segment.ts';
import { chunkBytes, type SendQueue, type ChunkSource } from './send-queue.ts';

/** Both ends begin with this much credit, so that the first bytes need not wait for a round trip. */
export const streamWindowBytes = 256 * 1_024;
const abortReasonBytesMax = 256;
const nothing = new Uint8Array(0);

export type StreamEndpointHost = {
  readonly queue: SendQueue;
  readonly wake: () => void;
  /** Runs a callback of the user; whatever it throws ends there. Returns false if it threw. */
  guarded(run: () => void): boolean;
  /** The end is over and leaves the table. `ended` is called by the host, after whatever call is under way. */
  over(end: StreamEndpoint, outcome: Outcome<void>): void;
};

export class StreamEndpoint implements ByteStream, ChunkSource {
  readonly isTransfer = false;
  readonly id: number;
  readonly openedHere: boolean;
  events: ByteStreamEvents | undefined;
  /** Received and handed over, but not yet given back to the sender as credit. */
  owedBytes = 0;
  readonly #host: StreamEndpointHost;
  readonly #flags: number;
  #chunks: Uint8Array[] = [];
  #chunkAt = 0;
  #queuedBytes = 0;
  #creditBytes = streamWindowBytes;
  #receivableBytes = streamWindowBytes;
  #queued = false;
  #wantsWritable = false;
  #endAsked = false;
  #endSent = false;
  #endReceived = false;
  #over = false;

  constructor(id: number, openedHere: boolean, flags: number, host: StreamEndpointHost) {
    this.id = id;
    this.openedHere = openedHere;
    this.#flags = flags;
    this.#host = host;
  }

  get bytesLeft(): number {
    return this.#queuedBytes + (this.#endAsked && !this.#endSent ? 1 : 0);
  }

  write(chunk: Uint8Array): boolean {
    if (chunk.length > streamWindowBytes) {
      throw new RemusterError('TOO_LARGE', `a chunk of a stream has at most ${streamWindowBytes} bytes`);
    }
    if (this.#over || this.#endAsked) return false;
    if (chunk.length > this.#creditBytes) {
      this.#wantsWritable = true;
      return false;
    }
    if (chunk.length === 0) return true;
    this.#creditBytes -= chunk.length;
    this.#chunks.push(new Uint8Array(chunk));
    this.#queuedBytes += chunk.length;
    this.#enqueue(chunk.length);
    return true;
  }

  end(): void {
    if (this.#over || this.#endAsked) return;
    this.#endAsked = true;
    this.#enqueue(1);
  }

  abort(reason: string): void {
    if (this.#over) return;
    const text = new TextEncoder().encode(reason.slice(0, abortReasonBytesMax));
    this.#host.queue.push(segmentKinds.abort, this.#flags, this.id, 0, text.subarray(0, abortReasonBytesMax));
    this.#host.wake();
    this.finish({ ok: false, error: new RemusterError('CANCELLED', reason) });
  }

  /** One chunk, then the end if there is nothing left. */
  fill(into: Uint8Array, at: number): number {
    let end = at;
    const head = this.#chunks[0];
    if (head !== undefined) {
      const part = head.subarray(this.#chunkAt, this.#chunkAt + chunkBytes);
      this.#chunkAt += part.length;
      this.#queuedBytes -= part.length;
      if (this.#chunkAt === head.length) {
        this.#chunks.shift();
        this.#chunkAt = 0;
      }
      end = writeSegment(into, end, segmentKinds.data, this.#flags, this.id, 0, part);
    }
    if (this.#queuedBytes === 0 && this.#endAsked && !this.#endSent) {
      this.#endSent = true;
      end = writeSegment(into, end, segmentKinds.end, this.#flags, this.id, 0, nothing);
      if (this.#endReceived) this.finish(success(undefined));
    }
    this.#queued = this.bytesLeft > 0;
    return end;
  }

  receive(bytes: Uint8Array): void {
    if (this.#endReceived || bytes.length > this.#receivableBytes) {
      throw new RemusterError('MALFORMED', 'a stream exceeds its credit or goes on after its end');
    }
    this.owedBytes += bytes.length;
    this.#receivableBytes -= bytes.length;
    this.#callUser((events) => events.chunk(bytes));
  }

  /** What the other side may send again; the host tells it. */
  takeOwedCredit(): number {
    const owed = this.owedBytes;
    this.owedBytes = 0;
    this.#receivableBytes += owed;
    return this.#over ? 0 : owed;
  }

  credit(bytes: number): void {
    this.#creditBytes += bytes;
    if (this.#creditBytes > streamWindowBytes) throw new RemusterError('MALFORMED', 'more credit than was spent');
    if (!this.#wantsWritable) return;
    this.#wantsWritable = false;
    this.#callUser((events) => events.writable());
  }

  receiveEnd(): void {
    if (this.#endReceived) throw new RemusterError('MALFORMED', 'a stream ends twice');
    this.#endReceived = true;
    if (this.#endSent) this.finish(success(undefined));
  }

  finish(outcome: Outcome<void>): void {
    if (this.#over) return;
    this.#over = true;
    // The end that was just written counts as sent; anything else that waits is given up.
    this.#host.queue.adjust(this.#queued ? -this.bytesLeft : 0);
    this.#chunks = [];
    this.#chunkAt = 0;
    this.#queuedBytes = 0;
    this.#endSent = true;
    this.#host.over(this, outcome);
  }

  /** A mistake of the user ends this stream; a mistake of the peer, thrown before, ends the connection. */
  #callUser(call: (events: ByteStreamEvents) => void): void {
    const { events } = this;
    if (events === undefined || this.#over) return;
    if (!this.#host.guarded(() => call(events))) this.abort('the handler of the stream failed');
  }

  #enqueue(bytes: number): void {
    if (this.#queued) this.#host.queue.adjust(bytes);
    else if (!this.#host.queue.add(this)) return this.abort('too many streams wait');
    this.#queued = true;
    this.#host.wake();
  }
}
