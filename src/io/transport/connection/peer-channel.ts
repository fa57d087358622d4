/**
 * State of one peer address: its connection, the queue while dialing, the time of the next attempt. Queued items were
 * not sent, so they fail with UNREACHABLE, which promises that nothing happened.
 */
import { BoundedQueue } from '../../../base/collections/bounded-queue.ts';
import { type Done, type RemusterError, failure } from '../../../base/errors.ts';
import type { Address } from '../../../base/ports.ts';
import type { SealedConnection } from './sealed-connection.ts';
import type { PendingStream } from './pending-stream.ts';

export type QueuedRequest = {
  readonly kind: 'request';
  readonly body: Uint8Array;
  readonly deadlineMs: number;
  readonly done: Done<Uint8Array>;
  /** The connection on which it was sent, and its id there. */
  sent: { readonly connection: SealedConnection; readonly id: number } | undefined;
  isCompleted: boolean;
};
export type QueuedItem =
  | QueuedRequest
  | { readonly kind: 'notify'; readonly body: Uint8Array }
  | { readonly kind: 'open'; readonly body: Uint8Array; readonly stream: PendingStream };

export class PeerChannel {
  readonly address: Address;
  connection: SealedConnection | undefined;
  dialing = false;
  failures = 0;
  retryAtMs = 0;
  lastFailure: RemusterError | undefined;
  readonly drainWaiters: (() => void)[] = [];
  readonly #queue: BoundedQueue<QueuedItem>;
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(address: Address, waitingMax: number, bytesMax: number) {
    this.address = { host: address.host, port: address.port };
    this.#queue = new BoundedQueue(waitingMax);
    this.#bytesMax = bytesMax;
  }

  /** It can be evicted without an effect. */
  get isUnused(): boolean {
    return this.connection === undefined && !this.dialing && this.#queue.length === 0;
  }

  get hasRoom(): boolean {
    if (this.connection !== undefined) return this.connection.hasRoom;
    return this.#queue.length < this.#queue.max && this.#bytes < this.#bytesMax;
  }

  enqueue(item: QueuedItem): boolean {
    if (this.#bytes + item.body.length > this.#bytesMax || !this.#queue.push(item)) return false;
    this.#bytes += item.body.length;
    return true;
  }

  dequeueAll(): QueuedItem[] {
    const items = [...this.#queue];
    this.#queue.clear();
    this.#bytes = 0;
    return items;
  }

  expire(nowMs: number): void {
    for (const item of this.#queue) {
      if (item.kind === 'request' && !item.isCompleted && item.deadlineMs <= nowMs) {
        completeQueuedRequest(item, failure('UNREACHABLE', 'no connection could be made before the deadline'));
      }
    }
  }

  earliestMs(): number {
    let earliest = Infinity;
    for (const item of this.#queue) {
      if (item.kind === 'request' && !item.isCompleted) earliest = Math.min(earliest, item.deadlineMs);
    }
    return earliest;
  }

  failQueued({ code, message }: RemusterError): void {
    const outcome = failure(code, `${this.address.host}:${this.address.port}: ${message}`, 'no');
    for (const item of this.dequeueAll()) {
      if (item.kind === 'request') completeQueuedRequest(item, outcome);
      else if (item.kind === 'open') item.stream.fail(outcome);
    }
  }

  /** There is room again or no connection: either way the waiters should retry. */
  notifyDrained(): void {
    for (const waiter of this.drainWaiters.splice(0)) queueMicrotask(waiter);
  }
}

export function completeQueuedRequest(item: QueuedRequest, outcome: Parameters<Done<Uint8Array>>[0]): void {
  if (item.isCompleted) return;
  item.isCompleted = true;
  item.done(outcome);
}
