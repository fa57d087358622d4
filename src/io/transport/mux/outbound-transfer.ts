/** A large outbound message: `begin`, then parts, or `drop` if it is abandoned. Owns its bytes. */
import { RemusterError } from '../../../base/errors.ts';
import {
  compressedFlag,
  type SegmentHeader,
  segmentKindMax,
  segmentKinds,
  readU32,
  writeSegment,
  writeU32,
} from './segment.ts';
import { chunkBytes, type SendQueue, type ChunkSource } from './send-queue.ts';

const transferHeaderBytes = 14;
const emptyBytes = new Uint8Array(0);

export type TransferHeader = SegmentHeader & { readonly rawBytes: number };

export class OutboundTransfer implements ChunkSource {
  readonly isTransfer = true;
  readonly id: number;
  readonly #header: SegmentHeader;
  readonly #rawBytes: number;
  readonly #onSent: () => void;
  #body: Uint8Array;
  #at = -1;
  #dropped = false;

  /** `onSent` is called when the last byte has left the queue, or the transfer was dropped. */
  constructor(id: number, header: SegmentHeader, body: Uint8Array, rawBytes: number, onSent: () => void) {
    this.id = id;
    this.#onSent = onSent;
    this.#header = header;
    this.#body = body;
    this.#rawBytes = rawBytes;
  }

  get bytesLeft(): number {
    if (this.#dropped) return 1;
    return this.#at < 0 ? this.#body.length : this.#body.length - this.#at;
  }

  fill(into: Uint8Array, at: number): number {
    if (this.#dropped) {
      const end = this.#at < 0 ? at : writeSegment(into, at, segmentKinds.drop, 0, this.id, 0, emptyBytes);
      this.#dropped = false;
      this.#at = this.#body.length;
      this.#onSent();
      return end;
    }
    let end = at;
    if (this.#at < 0) {
      this.#at = 0;
      end = writeSegment(into, end, segmentKinds.begin, 0, this.id, this.#body.length, this.#encodeHeader());
    }
    const part = this.#body.subarray(this.#at, this.#at + chunkBytes);
    this.#at += part.length;
    if (this.#at === this.#body.length) this.#onSent();
    return writeSegment(into, end, segmentKinds.part, 0, this.id, 0, part);
  }

  /** Called when the message is abandoned. */
  drop(queue: SendQueue): void {
    const left = this.bytesLeft;
    if (left === 0 || this.#dropped) return;
    this.#dropped = true;
    if (this.#at < 0) this.#body = emptyBytes;
    queue.adjust(1 - left);
  }

  #encodeHeader(): Uint8Array {
    const body = new Uint8Array(transferHeaderBytes);
    body[0] = this.#header.kind;
    body[1] = this.#header.flags;
    writeU32(body, 2, this.#header.id);
    writeU32(body, 6, this.#header.argument);
    writeU32(body, 10, this.#rawBytes);
    return body;
  }
}

const transferableKinds: readonly number[] = [segmentKinds.request, segmentKinds.reply, segmentKinds.notify];

export function readTransferHeader(body: Uint8Array): TransferHeader {
  if (body.length !== transferHeaderBytes)
    throw new RemusterError('MALFORMED', 'a transfer header has the wrong length');
  const [kind, flags] = [body[0]!, body[1]!];
  if (kind > segmentKindMax || !transferableKinds.includes(kind) || (flags & ~compressedFlag) !== 0) {
    throw new RemusterError('MALFORMED', 'a transfer header of a kind that has no parts');
  }
  return { kind, flags, id: readU32(body, 2), argument: readU32(body, 6), rawBytes: readU32(body, 10) };
}
