/**
 * Slots whose etcd version counts the transactions marked in them; one slot per transaction in flight. A slot ends by
 * its own lease.
 *
 *   if the slot's version is still what it was -> execute, and write "number branch" into the slot
 *   otherwise                                  -> read the slot: our number says that an earlier attempt was executed
 *
 * An attempt that etcd carries out late finds the version changed and does nothing. Slots are few, because the lowest
 * free one is taken, and they end with a lease of their own an hour after they were last written. The lease is replaced
 * every twenty minutes, so a mark outlives every call that could ask for it.
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
    const at = this.#free.findIndex((one) => one > index);
    this.#free.splice(at < 0 ? this.#free.length : at, 0, index);
  }

  nextNumber(): number {
    this.#lastNumber += 1;
    return this.#lastNumber;
  }
}

type Grant = { readonly id: string; readonly granted: Promise<string>; readonly askedMs: number; isThere: boolean };

/** Granted when the first mark is written; `grant` has to end in an error or in a lease of that id. */
export class EtcdDedupLease {
  readonly #nowMs: () => number;
  readonly #grant: (id: string, ttlSeconds: number, deadlineMs: number) => Promise<void>;
  #current: Grant | undefined;

  constructor(nowMs: () => number, grant: (id: string, ttlSeconds: number, deadlineMs: number) => Promise<void>) {
    this.#nowMs = nowMs;
    this.#grant = grant;
  }

  /** If there is one that needs no waiting for. */
  get present(): string | undefined {
    const current = this.#current;
    return current?.isThere === true && this.#nowMs() - current.askedMs < renewAfterMs ? current.id : undefined;
  }

  /** Shared by all who ask, although the first one sets the deadline; a failed attempt is not kept. */
  acquire(deadlineMs: number): Promise<string> {
    const askedMs = this.#nowMs();
    if (this.#current !== undefined && askedMs - this.#current.askedMs < renewAfterMs) return this.#current.granted;
    const id = newLeaseId();
    const granted = this.#grant(id, leaseSeconds, deadlineMs).then(() => {
      grant.isThere = true;
      return id;
    });
    const grant: Grant = { id, granted, askedMs, isThere: false };
    this.#current = grant;
    granted.catch(() => this.markLost(id));
    return granted;
  }

  /** It was not granted, or is gone in etcd, which only somebody else's hand can have caused. */
  markLost(id: string): void {
    if (this.#current?.id === id) this.#current = undefined;
  }
}

/** Chosen here and not by etcd, so that a grant can be asked for twice: 63 random bits, never 0. */
export function newLeaseId(): string {
  return String((randomBytes(8).readBigUInt64BE() >> 1n) | 1n);
}
