/**
 * Large messages on their way in. Memory is reserved at `begin` from the connection's and the shared budget. No number
 * of peers can make the node exceed it.
 */
import { RemusterError } from '../../../base/errors.ts';
import { type TransferHeader, readTransferHeader } from './outbound-transfer.ts';

/** Bytes shared by all connections of a transport. */
export class ByteBudget {
  readonly #max: number;
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  take(bytes: number): boolean {
    if (this.#used + bytes > this.#max) return false;
    this.#used += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#used -= bytes;
  }
}

type Arriving = { readonly announced: TransferHeader; readonly body: Uint8Array; filled: number };

export type ReassembledMessage = { readonly announced: TransferHeader; readonly body: Uint8Array };

const arrivingMax = 64;

export class Reassembly {
  readonly #messageBytesMax: number;
  readonly #own: ByteBudget;
  readonly #shared: ByteBudget;
  readonly #arriving = new Map<number, Arriving>();

  constructor(messageBytesMax: number, bytesMax: number, shared: ByteBudget) {
    this.#messageBytesMax = messageBytesMax;
    this.#own = new ByteBudget(bytesMax);
    this.#shared = shared;
  }

  /** Says what was announced, and whether there is room for it; parts of a refused message are ignored. */
  begin(id: number, totalBytes: number, body: Uint8Array): { announced: TransferHeader; accepted: boolean } {
    const announced = readTransferHeader(body);
    if (totalBytes === 0 || this.#arriving.has(id)) throw new RemusterError('MALFORMED', 'a transfer begins twice');
    if (totalBytes > this.#messageBytesMax) throw new RemusterError('TOO_LARGE', 'a message exceeds the limit');
    const accepted = this.#arriving.size < arrivingMax && this.#reserve(totalBytes);
    if (accepted) this.#arriving.set(id, { announced, body: new Uint8Array(totalBytes), filled: 0 });
    return { announced, accepted };
  }

  /** The message when this was its last part. Its bytes stay reserved until `release`. */
  part(id: number, bytes: Uint8Array): ReassembledMessage | undefined {
    const arriving = this.#arriving.get(id);
    if (arriving === undefined) return undefined;
    if (bytes.length === 0 || bytes.length > arriving.body.length - arriving.filled) {
      throw new RemusterError('MALFORMED', 'a part does not fit its message');
    }
    arriving.body.set(bytes, arriving.filled);
    arriving.filled += bytes.length;
    if (arriving.filled < arriving.body.length) return undefined;
    this.#arriving.delete(id);
    return arriving;
  }

  drop(id: number): void {
    const arriving = this.#arriving.get(id);
    if (arriving === undefined) return;
    this.#arriving.delete(id);
    this.release(arriving.body.length);
  }

  /** The cancelled request may still be on its way in. */
  dropRequest(kind: number, requestId: number): void {
    for (const [id, { announced }] of this.#arriving) {
      if (announced.kind === kind && announced.id === requestId) this.drop(id);
    }
  }

  release(bytes: number): void {
    this.#own.release(bytes);
    this.#shared.release(bytes);
  }

  /** The connection is gone. */
  clear(): void {
    for (const id of this.#arriving.keys()) this.drop(id);
  }

  #reserve(bytes: number): boolean {
    if (!this.#own.take(bytes)) return false;
    if (this.#shared.take(bytes)) return true;
    this.#own.release(bytes);
    return false;
  }
}
