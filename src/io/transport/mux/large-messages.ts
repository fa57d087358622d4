/**
 * Messages larger than a chunk, both ways: compress, send in parts, reassemble, inflate, each step within its bound.
 * All of it is asynchronous, so each step first checks that the message is still wanted.
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
  readonly broken: (error: RemusterError) => void;
  arrived(kind: number, id: number, argument: number, body: Uint8Array): void;
  /** An incoming message was not taken. */
  refused(kind: number, id: number, code: ErrorCode): void;
  /** An outgoing message cannot be sent. */
  unsendable(kind: number, id: number, code: ErrorCode): void;
};

export class LargeMessages {
  readonly #context: MuxContext;
  readonly #queue: SendQueue;
  readonly #events: LargeMessageEvents;
  readonly #reassembly: Reassembly;
  /** Requests on their way out, so that they can be given up. 'compressing' has no bytes in the queue yet. */
  readonly #requests = new Map<number, OutboundTransfer | 'compressing'>();
  /** Requests that have arrived and are being inflated, so that nobody serves one that was given up meanwhile. */
  readonly #inflating = new Set<number>();
  #lastTransfer = 0;
  #open = true;

  constructor(context: MuxContext, queue: SendQueue, events: LargeMessageEvents) {
    const { limits } = context;
    this.#context = context;
    this.#queue = queue;
    this.#events = events;
    this.#reassembly = new Reassembly(limits.messageBytesMax, limits.reassemblyBytesMax, context.reassembly);
  }

  /** Copies the body: it belongs to the caller and is sent over many turns. */
  send(header: SegmentHeader, body: Uint8Array): void {
    const { limits, compression } = this.#context;
    const owned = new Uint8Array(body);
    if (owned.length < limits.compressFromBytes) return this.#sendAs(header, owned, owned.length);
    if (header.kind === segmentKinds.request) this.#requests.set(header.id, 'compressing');
    this.#queue.adjust(owned.length);
    compression.compress(owned, (compressed) => {
      this.#queue.adjust(-owned.length);
      const given = header.kind === segmentKinds.request && this.#requests.get(header.id) !== 'compressing';
      if (!this.#open || given) return;
      if (compressed === undefined) this.#sendAs(header, owned, owned.length);
      else this.#sendAs({ ...header, flags: header.flags | compressedFlag }, compressed, owned.length);
    });
    return undefined;
  }

  /** Nobody waits for the reply any more: the rest of the request is not sent. */
  abandon(requestId: number): void {
    const transfer = this.#requests.get(requestId);
    if (transfer instanceof OutboundTransfer) transfer.drop(this.#queue);
    this.#requests.delete(requestId);
  }

  /** The peer gave up a request that may still be arriving, or being inflated: it may use its id again. */
  cancelled(requestId: number): void {
    this.#inflating.delete(requestId);
    this.#reassembly.dropRequest(segmentKinds.request, requestId);
  }

  receive(kind: number, id: number, argument: number, body: Uint8Array): void {
    if (kind === segmentKinds.drop) {
      this.#reassembly.drop(id);
    } else if (kind === segmentKinds.begin) {
      const { announced, accepted } = this.#reassembly.begin(id, argument, body);
      if (!accepted) this.#refuse(announced, 'reassembly', 'CAPACITY');
    } else {
      const arrived = this.#reassembly.part(id, body);
      if (arrived !== undefined) this.#arrived(arrived);
    }
  }

  clear(): void {
    this.#open = false;
    this.#requests.clear();
    this.#inflating.clear();
    this.#reassembly.clear();
  }

  #sendAs(header: SegmentHeader, body: Uint8Array, rawBytes: number): void {
    const { messageBytesMax, decompressedBytesMax } = this.#context.limits;
    if (body.length > messageBytesMax || rawBytes > decompressedBytesMax) {
      this.#requests.delete(header.id);
      // The caller of a request is told by its own callback, which must not run before its call has returned.
      queueMicrotask(() => this.#events.unsendable(header.kind, header.id, 'TOO_LARGE'));
      return;
    }
    this.#lastTransfer = (this.#lastTransfer + 1) >>> 0;
    const transfer = new OutboundTransfer(this.#lastTransfer, header, body, rawBytes, () => this.#sent(header));
    if (!this.#queue.add(transfer)) {
      queueMicrotask(() => this.#events.unsendable(header.kind, header.id, 'CAPACITY'));
    } else if (header.kind === segmentKinds.request) {
      this.#requests.set(header.id, transfer);
    }
    this.#events.wake();
  }

  #sent(header: SegmentHeader): void {
    if (header.kind === segmentKinds.request) this.#requests.delete(header.id);
  }

  #arrived({ announced, body }: ReassembledMessage): void {
    if ((announced.flags & compressedFlag) === 0) {
      this.#events.arrived(announced.kind, announced.id, announced.argument, body);
      this.#reassembly.release(body.length);
      return;
    }
    const isRequest = announced.kind === segmentKinds.request;
    if (isRequest) this.#inflating.add(announced.id);
    this.#context.compression.decompress(body, announced.rawBytes, (raw) => {
      this.#reassembly.release(body.length);
      const isGivenUp = isRequest && !this.#inflating.delete(announced.id);
      if (!this.#open || isGivenUp) return;
      if (raw instanceof Uint8Array) this.#inflated(announced, raw);
      else if (raw === 'tooMuch') this.#refuse(announced, 'decompression', 'CAPACITY');
      else this.#bomb(raw);
    });
  }

  /** Nobody reads a frame now who would catch what a message that breaks the protocol throws. */
  #inflated({ kind, id, argument }: TransferHeader, raw: Uint8Array): void {
    try {
      this.#events.arrived(kind, id, argument, raw);
    } catch (error) {
      this.#events.broken(isRemusterError(error) ? error : new RemusterError('INTERNAL', String(error)));
    }
  }

  /** An honest sender keeps the limits, so this one is not honest. */
  #bomb(kind: 'tooLarge' | 'malformed'): void {
    this.#context.counters.reject('decompression');
    this.#events.broken(new RemusterError(kind === 'tooLarge' ? 'TOO_LARGE' : 'MALFORMED', 'a body does not inflate'));
  }

  #refuse(announced: TransferHeader, reason: 'reassembly' | 'decompression', code: ErrorCode): void {
    this.#context.counters.reject(reason);
    this.#events.refused(announced.kind, announced.id, code);
  }
}
