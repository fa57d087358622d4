/** One side of a simulated byte stream with credit-based flow control in each direction. */
import { failure, RemusterError, success } from '../../base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../base/ports.ts';
import type { Failpoints } from '../../base/failpoints.ts';
import { poisonByte } from './simulated-datagrams.ts';
import type { SimulatedConnection } from './simulated-connection.ts';

const soonMs = 1;

export class ByteStreamSide {
  readonly #line: SimulatedConnection;
  readonly #rare: Failpoints;
  readonly #creditMax: number;
  #credit: number;
  #events: ByteStreamEvents | undefined;
  #peer: ByteStreamSide | undefined;
  #refused = false;
  #ended = false;
  #peerEnded = false;
  #over = false;
  #forget: () => void;

  constructor(line: SimulatedConnection, creditMax: number, rare: Failpoints) {
    this.#line = line;
    this.#rare = rare;
    this.#creditMax = creditMax;
    this.#credit = creditMax;
    this.#forget = line.onClose((reason) =>
      this.#finish(failure('NETWORK_TIMEOUT', `the connection is gone: ${reason}`)),
    );
  }

  readonly stream: ByteStream = {
    write: (chunk) => this.#write(chunk),
    end: () => this.#end(),
    abort: (reason) => {
      if (this.#over) return;
      this.#atPeer(reason.length, (peer) => peer.aborted(reason));
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

  aborted(reason: string): void {
    this.#finish(failure('CANCELLED', reason));
  }

  /** The opening travels first, so the other side is there when anything else arrives. */
  #atPeer(sizeBytes: number, act: (peer: ByteStreamSide) => void): void {
    this.#line.send(sizeBytes, () => {
      if (this.#peer !== undefined) act(this.#peer);
    });
  }

  #write(chunk: Uint8Array): boolean {
    if (chunk.length > this.#creditMax) {
      throw new RemusterError('TOO_LARGE', `a chunk of a stream has at most ${this.#creditMax} bytes`);
    }
    if (this.#over || this.#ended) return false;
    if (chunk.length > this.#credit || this.#refused) {
      this.#refused = true;
      return false;
    }
    if (this.#rare('stream-no-credit')) {
      this.#refused = true;
      this.#line.self.process.after(soonMs, () => this.#credited(0));
      return false;
    }
    this.#credit -= chunk.length;
    const copy = chunk.slice();
    this.#atPeer(copy.length, (peer) => peer.#arrived(copy));
    return true;
  }

  #arrived(bytes: Uint8Array): void {
    if (this.#over) return;
    const sizeBytes = bytes.length;
    this.#events?.chunk(bytes);
    bytes.fill(poisonByte);
    this.#atPeer(0, (peer) => peer.#credited(sizeBytes));
  }

  #credited(sizeBytes: number): void {
    this.#credit += sizeBytes;
    if (!this.#refused || this.#over || this.#credit <= 0) return;
    this.#refused = false;
    if (!this.#ended) this.#events?.writable();
  }

  #end(): void {
    if (this.#over || this.#ended) return;
    this.#ended = true;
    this.#atPeer(0, (peer) => peer.#onPeerEnd());
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
    if (this.#over) return;
    this.#over = true;
    this.#forget();
    this.#line.self.process.after(0, () => this.#events?.ended(outcome));
  }
}
