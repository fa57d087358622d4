/**
 * Messages larger than a chunk, in both directions: compress, send in parts, reassemble, decompress, each step within
 * its bound. The steps are asynchronous, so each first checks that the request was not abandoned meanwhile.
 */
import { isRemusterError, RemusterError } from '../../../base/errors.ts';
import type { ErrorCode } from '../../../base/error-table.ts';
import type { MuxContext } from './mux-context.ts';
import { type ReassembledMessage, Reassembly } from './reassembly.ts';
import { compressedFlag, type SegmentHeader, segmentKinds } from './segment.ts';
import type { SendQueue } from './send-queue.ts';
import { type TransferHeader, OutboundTransfer } from './outbound-transfer.ts';

export type LargeMessageEvents = {
  readonly wake: () => void;
  readonly onProtocolError: (error: RemusterError) => void;
  received(kind: number, id: number, argument: number, body: Uint8Array): void;
  /** There is no room for an incoming message. */
  refused(kind: number, id: number, code: ErrorCode): void;
  /** An outgoing message cannot be sent. */
  unsendable(kind: number, id: number, code: ErrorCode): void;
};

export class LargeMessages {
  readonly #context: MuxContext;
  readonly #queue: SendQueue;
  readonly #events: LargeMessageEvents;
  readonly #reassembly: Reassembly;
  /** Outbound requests, which can be abandoned. 'compressing': not in the queue yet. */
  readonly #requests = new Map<number, OutboundTransfer | 'compressing'>();
  /** Inbound requests that are being decompressed. A cancelled one is removed and not served. */
  readonly #decompressing = new Set<number>();
  #lastTransfer = 0;
  #open = true;

  constructor(context: MuxContext, queue: SendQueue, events: LargeMessageEvents) {
    const { limits } = context;
    this.#context = context;
    this.#queue = queue;
    this.#events = events;
    this.#reassembly = new Reassembly(limits.messageBytesMax, limits.reassemblyBytesMax, context.reassembly);
  }

  /** Copies the body, because it belongs to the caller and is sent over many event loop turns. */
  send(header: SegmentHeader, body: Uint8Array): void {
    const { limits, compression } = this.#context;
    const owned = new Uint8Array(body);
    if (owned.length < limits.compressFromBytes) return this.#sendAs(header, owned, owned.length);
    if (header.kind === segmentKinds.request) this.#requests.set(header.id, 'compressing');
    this.#queue.adjust(owned.length);
    compression.compress(owned, (compressed) => {
      this.#queue.adjust(-owned.length);
      const isAbandoned = header.kind === segmentKinds.request && this.#requests.get(header.id) !== 'compressing';
      if (!this.#open || isAbandoned) return;
      if (compressed === undefined) this.#sendAs(header, owned, owned.length);
      else this.#sendAs({ ...header, flags: header.flags | compressedFlag }, compressed, owned.length);
    });
    return undefined;
  }

  /** The caller does not wait for the reply any more: the rest of the request is not sent. */
  abandon(requestId: number): void {
    const transfer = this.#requests.get(requestId);
    if (transfer instanceof OutboundTransfer) transfer.drop(this.#queue);
    this.#requests.delete(requestId);
  }

  /** The peer cancelled a request that may be incomplete or being decompressed. It may reuse the id at once. */
  onCancel(requestId: number): void {
    this.#decompressing.delete(requestId);
    this.#reassembly.dropRequest(segmentKinds.request, requestId);
  }

  receive(kind: number, id: number, argument: number, body: Uint8Array): void {
    if (kind === segmentKinds.drop) {
      this.#reassembly.drop(id);
    } else if (kind === segmentKinds.begin) {
      const { header, accepted } = this.#reassembly.begin(id, argument, body);
      if (!accepted) this.#refuse(header, 'reassembly', 'CAPACITY');
    } else {
      const message = this.#reassembly.part(id, body);
      if (message !== undefined) this.#onReassembled(message);
    }
  }

  clear(): void {
    this.#open = false;
    this.#requests.clear();
    this.#decompressing.clear();
    this.#reassembly.clear();
  }

  #sendAs(header: SegmentHeader, body: Uint8Array, rawBytes: number): void {
    const { messageBytesMax, decompressedBytesMax } = this.#context.limits;
    if (body.length > messageBytesMax || rawBytes > decompressedBytesMax) {
      this.#requests.delete(header.id);
      // In a microtask, because the callback of a request must not run before its call has returned.
      queueMicrotask(() => this.#events.unsendable(header.kind, header.id, 'TOO_LARGE'));
      return;
    }
    this.#lastTransfer = (this.#lastTransfer + 1) >>> 0;
    const transfer = new OutboundTransfer(this.#lastTransfer, header, body, rawBytes, () => this.#onSent(header));
    if (!this.#queue.add(transfer)) {
      queueMicrotask(() => this.#events.unsendable(header.kind, header.id, 'CAPACITY'));
    } else if (header.kind === segmentKinds.request) {
      this.#requests.set(header.id, transfer);
    }
    this.#events.wake();
  }

  #onSent(header: SegmentHeader): void {
    if (header.kind === segmentKinds.request) this.#requests.delete(header.id);
  }

  #onReassembled({ header, body }: ReassembledMessage): void {
    if ((header.flags & compressedFlag) === 0) {
      this.#events.received(header.kind, header.id, header.argument, body);
      this.#reassembly.release(body.length);
      return;
    }
    const isRequest = header.kind === segmentKinds.request;
    if (isRequest) this.#decompressing.add(header.id);
    this.#context.compression.decompress(body, header.rawBytes, (raw) => {
      this.#reassembly.release(body.length);
      const isCancelled = isRequest && !this.#decompressing.delete(header.id);
      if (!this.#open || isCancelled) return;
      if (raw instanceof Uint8Array) this.#onDecompressed(header, raw);
      else if (raw === 'overBudget') this.#refuse(header, 'decompression', 'CAPACITY');
      else this.#onBomb(raw);
    });
  }

  /** Reports a protocol error by an event: outside the read of a frame no caller catches it. */
  #onDecompressed({ kind, id, argument }: TransferHeader, raw: Uint8Array): void {
    try {
      this.#events.received(kind, id, argument, raw);
    } catch (error) {
      this.#events.onProtocolError(isRemusterError(error) ? error : new RemusterError('INTERNAL', String(error)));
    }
  }

  /** An honest sender keeps the limits, so this ends the connection. */
  #onBomb(kind: 'tooLarge' | 'malformed'): void {
    this.#context.counters.reject('decompression');
    const code = kind === 'tooLarge' ? 'TOO_LARGE' : 'MALFORMED';
    this.#events.onProtocolError(new RemusterError(code, 'a body cannot be decompressed'));
  }

  #refuse(header: TransferHeader, reason: 'reassembly' | 'decompression', code: ErrorCode): void {
    this.#context.counters.reject(reason);
    this.#events.refused(header.kind, header.id, code);
  }
}
