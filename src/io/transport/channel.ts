/**
 * The way to one address: its connection if there is one, what waits while one is being made, and when the next attempt
 * is allowed. What waits has certainly not been sent, so it ends with UNREACHABLE, which promises that nothing happened.
 */
import { BoundedQueue } from '../../base/collections/bounded-queue.ts';
import { type Done, failure } from '../../base/errors.ts';
import type { Address } from '../../base/ports.ts';
import type { Connection } from './connection.ts';
import type { LateStream } from './late-stream.ts';

export type WaitingRequest = {
  readonly kind: 'request';
  readonly body: Uint8Array;
  readonly deadlineMs: number;
  readonly done: Done<Uint8Array>;
  /** The id on the connection, once it was sent there. */
  sent: { readonly connection: Connection; readonly id: number } | undefined;
  over: boolean;
};
export type Waiting =
  | WaitingRequest
  | { readonly kind: 'notify'; readonly body: Uint8Array }
  | { readonly kind: 'open'; readonly body: Uint8Array; readonly stream: LateStream };

export class Channel {
  readonly address: Address;
  connection: Connection | undefined;
  dialing = false;
  failures = 0;
  retryAtMs = 0;
  lastFailure = '';
  readonly drainWaiters: (() => void)[] = [];
  readonly #waiting: BoundedQueue<Waiting>;
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(address: Address, waitingMax: number, bytesMax: number) {
    this.address = { host: address.host, port: address.port };
    this.#waiting = new BoundedQueue(waitingMax);
    this.#bytesMax = bytesMax;
  }

  /** May be forgotten without anybody noticing. */
  get unused(): boolean {
    return this.connection === undefined && !this.dialing && this.#waiting.length === 0;
  }

  get hasRoom(): boolean {
    if (this.connection !== undefined) return this.connection.hasRoom;
    return this.#waiting.length < this.#waiting.max && this.#bytes < this.#bytesMax;
  }

  wait(item: Waiting): boolean {
    if (this.#bytes + item.body.length > this.#bytesMax || !this.#waiting.push(item)) return false;
    this.#bytes += item.body.length;
    return true;
  }

  takeWaiting(): Waiting[] {
    const items = [...this.#waiting];
    this.#waiting.clear();
    this.#bytes = 0;
    return items;
  }

  expire(nowMs: number): void {
    for (const item of this.#waiting) {
      if (item.kind === 'request' && !item.over && item.deadlineMs <= nowMs) {
        endRequest(item, failure('UNREACHABLE', 'no connection could be made before the deadline'));
      }
    }
  }

  earliestMs(): number {
    let earliest = Infinity;
    for (const item of this.#waiting) {
      if (item.kind === 'request' && !item.over) earliest = Math.min(earliest, item.deadlineMs);
    }
    return earliest;
  }

  failWaiting(reason: string): void {
    const outcome = failure('UNREACHABLE', `${this.address.host}:${this.address.port}: ${reason}`);
    for (const item of this.takeWaiting()) {
      if (item.kind === 'request') endRequest(item, outcome);
      else if (item.kind === 'open') item.stream.fail(outcome);
    }
  }

  /** Room again, or no connection any more: either way it is worth trying again. */
  tellDrained(): void {
    for (const waiter of this.drainWaiters.splice(0)) queueMicrotask(waiter);
  }
}

export function endRequest(item: WaitingRequest, outcome: Parameters<Done<Uint8Array>>[0]): void {
  if (item.over) return;
  item.over = true;
  item.done(outcome);
}
