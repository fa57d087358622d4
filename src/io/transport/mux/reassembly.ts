/**
 * Large inbound messages. Their memory is reserved at `begin` from the budget of the connection and the shared one, so
 * no number of peers can make the node exceed it.
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

type InboundTransfer = { readonly header: TransferHeader; readonly body: Uint8Array; filled: number };

export type ReassembledMessage = { readonly header: TransferHeader; readonly body: Uint8Array };

const transfersMax = 64;

export class Reassembly {
  readonly #messageBytesMax: number;
  readonly #own: ByteBudget;
  readonly #shared: ByteBudget;
  readonly #transfers = new Map<number, InboundTransfer>();

  constructor(messageBytesMax: number, bytesMax: number, shared: ByteBudget) {
    this.#messageBytesMax = messageBytesMax;
    this.#own = new ByteBudget(bytesMax);
    this.#shared = shared;
  }

  /** Returns the header, and whether there is room; parts of a refused message are ignored. */
  begin(id: number, totalBytes: number, body: Uint8Array): { header: TransferHeader; accepted: boolean } {
    const header = readTransferHeader(body);
    if (totalBytes === 0 || this.#transfers.has(id)) throw new RemusterError('MALFORMED', 'a transfer begins twice');
    if (totalBytes > this.#messageBytesMax) throw new RemusterError('TOO_LARGE', 'a message exceeds the limit');
    const accepted = this.#transfers.size < transfersMax && this.#reserve(totalBytes);
    if (accepted) this.#transfers.set(id, { header, body: new Uint8Array(totalBytes), filled: 0 });
    return { header, accepted };
  }

  /** Returns the message after its last part. Its bytes stay reserved until `release`. */
  part(id: number, bytes: Uint8Array): ReassembledMessage | undefined {
    const transfer = this.#transfers.get(id);
    if (transfer === undefined) return undefined;
    if (bytes.length === 0 || bytes.length > transfer.body.length - transfer.filled) {
      throw new RemusterError('MALFORMED', 'a part does not fit its message');
    }
    transfer.body.set(bytes, transfer.filled);
    transfer.filled += bytes.length;
    if (transfer.filled < transfer.body.length) return undefined;
    this.#transfers.delete(id);
    return transfer;
  }

  drop(id: number): void {
    const transfer = this.#transfers.get(id);
    if (transfer === undefined) return;
    this.#transfers.delete(id);
    this.release(transfer.body.length);
  }

  /** Drops a cancelled request of which parts are missing. */
  dropRequest(kind: number, requestId: number): void {
    for (const [id, { header }] of this.#transfers) {
      if (header.kind === kind && header.id === requestId) this.drop(id);
    }
  }

  release(bytes: number): void {
    this.#own.release(bytes);
    this.#shared.release(bytes);
  }

  /** The connection is lost. */
  clear(): void {
    for (const id of this.#transfers.keys()) this.drop(id);
  }

  #reserve(bytes: number): boolean {
    if (!this.#own.take(bytes)) return false;
    if (this.#shared.take(bytes)) return true;
    this.#own.release(bytes);
    return false;
  }
}
