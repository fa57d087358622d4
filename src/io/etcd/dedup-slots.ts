/**
 * Dedup slots: etcd keys whose version counts the transactions that are marked in them; one slot per transaction in
 * flight.
 *
 *   slot version unchanged -> execute, and write the mark "number branch" into the slot
 *   otherwise              -> read the slot: this transaction's number means that an earlier attempt was executed
 *
 * An attempt that etcd executes late finds another version and does nothing. Slots are few, because each transaction
 * takes the lowest free one. They expire with a lease of one hour, which is replaced every twenty minutes: a mark
 * outlives every call that could need it.
 */
import { randomBytes } from 'node:crypto';

const leaseSeconds = 3_600;
const renewAfterMs = 1_200_000;

export type EtcdDedupSlot = { readonly index: number; version: number };

export class EtcdDedupSlots {
  readonly session = randomBytes(12).toString('hex');
  readonly #slots: EtcdDedupSlot[] = [];
  readonly #free: number[] = [];
  #lastNumber = 0;

  take(): EtcdDedupSlot {
    const index = this.#free.shift() ?? this.#slots.length;
    const slot = this.#slots[index] ?? { index, version: 0 };
    this.#slots[index] = slot;
    return slot;
  }

  release({ index }: EtcdDedupSlot): void {
    const at = this.#free.findIndex((freeIndex) => freeIndex > index);
    this.#free.splice(at < 0 ? this.#free.length : at, 0, index);
  }

  nextNumber(): number {
    this.#lastNumber += 1;
    return this.#lastNumber;
  }
}

type Grant = {
  readonly id: string;
  readonly granted: Promise<string>;
  readonly requestedMs: number;
  isGranted: boolean;
};

/** The lease of all marks, granted before the first mark. `grant` must create a lease with that id or fail. */
export class EtcdDedupLease {
  readonly #nowMs: () => number;
  readonly #grant: (id: string, ttlSeconds: number, deadlineMs: number) => Promise<void>;
  #current: Grant | undefined;

  constructor(nowMs: () => number, grant: (id: string, ttlSeconds: number, deadlineMs: number) => Promise<void>) {
    this.#nowMs = nowMs;
    this.#grant = grant;
  }

  /** The lease, if it is granted and young enough. */
  get current(): string | undefined {
    const current = this.#current;
    return current?.isGranted === true && this.#nowMs() - current.requestedMs < renewAfterMs ? current.id : undefined;
  }

  /** All callers share one grant with the deadline of the first caller. A failed grant is dropped. */
  acquire(deadlineMs: number): Promise<string> {
    const requestedMs = this.#nowMs();
    const current = this.#current;
    if (current !== undefined && requestedMs - current.requestedMs < renewAfterMs) return current.granted;
    const id = newLeaseId();
    const granted = this.#grant(id, leaseSeconds, deadlineMs).then(() => {
      grant.isGranted = true;
      return id;
    });
    const grant: Grant = { id, granted, requestedMs, isGranted: false };
    this.#current = grant;
    granted.catch(() => this.markLost(id));
    return granted;
  }

  /** The lease was not granted, or another etcd client has revoked it. */
  markLost(id: string): void {
    if (this.#current?.id === id) this.#current = undefined;
  }
}

/** 63 random bits, never 0. Chosen by the client, so that a grant can be retried with the same id. */
export function newLeaseId(): string {
  return String((randomBytes(8).readBigUInt64BE() >> 1n) | 1n);
}
