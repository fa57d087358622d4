/**
 * One end of a byte stream: credit, unsent bytes, closed directions. Buffers at most one window, because a write
 * without credit is refused.
 */
import { RemusterError, success, type Outcome } from '../../../base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../../base/ports.ts';
import { segmentKinds, writeSegment } from './segment.ts';
import { chunkBytes, type SendQueue, type ChunkSource } from './send-queue.ts';

/** Initial credit of both ends, so that the first bytes need no round trip. */
export const streamWindowBytes = 256 * 1_024;
const abortReasonBytesMax = 256;
const emptyBytes = new Uint8Array(0);

export type StreamEndpointHost = {
  readonly queue: SendQueue;
  readonly wake: () => void;
  /** Runs a callback of the user and catches its errors. Returns false if it threw. */
  guarded(run: () => void): boolean;
  /** The stream has ended: the host removes it and calls `ended` after the current call has returned. */
  onFinish(end: StreamEndpoint, outcome: Outcome<void>): void;
};

export class StreamEndpoint implements ByteStream, ChunkSource {
  readonly isTransfer = false;
  readonly id: number;
  readonly openedHere: boolean;
  events: ByteStreamEvents | undefined;
  /** Bytes that were delivered and not granted to the sender as credit again. */
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
  #endRequested = false;
  #endSent = false;
  #endReceived = false;
  #isFinished = false;

  constructor(id: number, openedHere: boolean, flags: number, host: StreamEndpointHost) {
    this.id = id;
    this.openedHere = openedHere;
    this.#flags = flags;
    this.#host = host;
  }

  get bytesLeft(): number {
    return this.#queuedBytes + (this.#endRequested && !this.#endSent ? 1 : 0);
  }

  write(chunk: Uint8Array): boolean {
    if (chunk.length > streamWindowBytes) {
      throw new RemusterError('TOO_LARGE', `the chunk has ${chunk.length} of at most ${streamWindowBytes} bytes`);
    }
    if (this.#isFinished || this.#endRequested) return false;
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
    if (this.#isFinished || this.#endRequested) return;
    this.#endRequested = true;
    this.#enqueue(1);
  }

  abort(reason: string): void {
    if (this.#isFinished) return;
    const text = new TextEncoder().encode(reason.slice(0, abortReasonBytesMax));
    this.#host.queue.push(segmentKinds.abort, this.#flags, this.id, 0, text.subarray(0, abortReasonBytesMax));
    this.#host.wake();
    this.finish({ ok: false, error: new RemusterError('CANCELLED', reason) });
  }

  /** Writes one chunk, and the end after the last one. */
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
    if (this.#queuedBytes === 0 && this.#endRequested && !this.#endSent) {
      this.#endSent = true;
      end = writeSegment(into, end, segmentKinds.end, this.#flags, this.id, 0, emptyBytes);
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

  /** Credit that the host grants to the peer. */
  takeOwedCredit(): number {
    const owed = this.owedBytes;
    this.owedBytes = 0;
    this.#receivableBytes += owed;
    return this.#isFinished ? 0 : owed;
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
    if (this.#isFinished) return;
    this.#isFinished = true;
    // Unsent bytes are dropped.
    this.#host.queue.adjust(this.#queued ? -this.bytesLeft : 0);
    this.#chunks = [];
    this.#chunkAt = 0;
    this.#queuedBytes = 0;
    this.#endSent = true;
    this.#host.onFinish(this, outcome);
  }

  /** An error of the user aborts this stream; an error of the peer, thrown before, ends the connection. */
  #callUser(call: (events: ByteStreamEvents) => void): void {
    const { events } = this;
    if (events === undefined || this.#isFinished) return;
    if (!this.#host.guarded(() => call(events))) this.abort('the handler of the stream failed');
  }

  #enqueue(bytes: number): void {
    if (this.#queued) this.#host.queue.adjust(bytes);
    else if (!this.#host.queue.add(this)) return this.abort('too many streams wait');
    this.#queued = true;
    this.#host.wake();
  }
}
