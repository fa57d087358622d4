/** One side of a simulated byte stream. Never sends more bytes than the credit of the peer allows. */
import { failure, RemusterError, success } from '../../base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../base/ports.ts';
import type { Failpoints } from '../../base/failpoints.ts';
import { poisonByte } from './simulated-datagrams.ts';
import type { SimulatedConnection } from './simulated-connection.ts';

const soonMs = 1;

export class ByteStreamSide {
  readonly #connection: SimulatedConnection;
  readonly #failpoints: Failpoints;
  readonly #creditMax: number;
  #credit: number;
  #events: ByteStreamEvents | undefined;
  #peer: ByteStreamSide | undefined;
  #refused = false;
  #ended = false;
  #peerEnded = false;
  #finished = false;
  #cancelOnClose: () => void;

  constructor(connection: SimulatedConnection, creditMax: number, failpoints: Failpoints) {
    this.#connection = connection;
    this.#failpoints = failpoints;
    this.#creditMax = creditMax;
    this.#credit = creditMax;
    this.#cancelOnClose = connection.onClose((reason) =>
      this.#finish(failure('NETWORK_TIMEOUT', `the connection was lost: ${reason}`)),
    );
  }

  readonly stream: ByteStream = {
    write: (chunk) => this.#write(chunk),
    end: () => this.#end(),
    abort: (reason) => {
      if (this.#finished) return;
      this.#sendToPeer(reason.length, (peer) => peer.onAbort(reason));
      this.#finish(failure('CANCELLED', reason));
    },
  };

  join(peer: ByteStreamSide): void {
    this.#peer = peer;
    peer.#peer = this;
  }

  listen(events: ByteStreamEvents): void {
    this.#events = events;
  }

  onAbort(reason: string): void {
    this.#finish(failure('CANCELLED', reason));
  }

  /** The opening arrives first, so the peer exists when anything else arrives. */
  #sendToPeer(sizeBytes: number, act: (peer: ByteStreamSide) => void): void {
    this.#connection.send(sizeBytes, () => {
      if (this.#peer !== undefined) act(this.#peer);
    });
  }

  #write(chunk: Uint8Array): boolean {
    if (chunk.length > this.#creditMax) {
      throw new RemusterError(
        'TOO_LARGE',
        `the chunk has ${chunk.length} bytes; at most ${this.#creditMax} are allowed`,
      );
    }
    if (this.#finished || this.#ended) return false;
    if (chunk.length > this.#credit || this.#refused) {
      this.#refused = true;
      return false;
    }
    if (this.#failpoints('stream-no-credit')) {
      this.#refused = true;
      this.#connection.self.process.after(soonMs, () => this.#onCredit(0));
      return false;
    }
    this.#credit -= chunk.length;
    const copy = chunk.slice();
    this.#sendToPeer(copy.length, (peer) => peer.#onChunk(copy));
    return true;
  }

  #onChunk(bytes: Uint8Array): void {
    if (this.#finished) return;
    const sizeBytes = bytes.length;
    this.#events?.chunk(bytes);
    bytes.fill(poisonByte);
    this.#sendToPeer(0, (peer) => peer.#onCredit(sizeBytes));
  }

  #onCredit(sizeBytes: number): void {
    this.#credit += sizeBytes;
    if (!this.#refused || this.#finished || this.#credit <= 0) return;
    this.#refused = false;
    if (!this.#ended) this.#events?.writable();
  }

  #end(): void {
    if (this.#finished || this.#ended) return;
    this.#ended = true;
    this.#sendToPeer(0, (peer) => peer.#onPeerEnd());
    this.#finishIfBoth();
  }

  #onPeerEnd(): void {
    this.#peerEnded = true;
    this.#finishIfBoth();
  }

  #finishIfBoth(): void {
    if (this.#ended && this.#peerEnded) this.#finish(success(undefined));
  }

  #finish(outcome: Parameters<ByteStreamEvents['ended']>[0]): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#cancelOnClose();
    this.#connection.self.process.after(0, () => this.#events?.ended(outcome));
  }
}
