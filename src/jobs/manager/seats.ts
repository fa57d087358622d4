/**
 * The workers as the leader sees them: who reported, when, with how many cores, and what each has of us. A worker that
 * was not heard for its lease and a bit has surely stopped what it had. It chooses nobody and loses nothing by itself.
 */
import { CompactingSet } from '../../base/collections/compacting-map.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import type { Run } from './model.ts';

export type Seat = {
  readonly id: NodeId;
  name: string;
  readonly generation: number;
  address: Address | undefined;
  coresTotal: number;
  level: string;
  draining: boolean;
  isolation: 'full' | 'weak';
  /** A report came to this leader. */
  isHeard: boolean;
  heardMs: number;
  readonly runs: CompactingSet<Run>;
  /** It refused for want of a core, or is not registered: nothing is given before. */
  restUntilMs: number;
  /** A question to end something is under way. */
  stopping: boolean;
  /** Runs that have to be sent again, and when. */
  resendAtMs: number;
  restopAtMs: number;
};

const seatsMax = 10_000;

export class Seats {
  readonly #seats = new Map<NodeId, Seat>();
  readonly #leaseMs: number;

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  get(id: NodeId): Seat | undefined {
    return this.#seats.get(id);
  }

  values(): IterableIterator<Seat> {
    return this.#seats.values();
  }

  get size(): number {
    return this.#seats.size;
  }

  isFull(): boolean {
    return this.#seats.size >= seatsMax;
  }

  /** Replaces that of an earlier life, whose runs the caller has taken care of. */
  open(id: NodeId, name: string, generation: number, nowMs: number): Seat {
    const seat = newSeat(id, name, generation, nowMs);
    this.#seats.set(id, seat);
    return seat;
  }

  close(seat: Seat): void {
    if (this.#seats.get(seat.id) === seat) this.#seats.delete(seat.id);
  }

  clear(): void {
    this.#seats.clear();
  }

  /** It has surely stopped everything by itself, however its clock runs. */
  isOver(seat: Seat, nowMs: number): boolean {
    return nowMs >= seat.heardMs + 1.1 * this.#leaseMs;
  }

  /** It holds its lease and will for a while. */
  isFresh(seat: Seat, nowMs: number): boolean {
    return seat.isHeard && nowMs < seat.heardMs + 0.7 * this.#leaseMs;
  }
}

export function newSeat(id: NodeId, name: string, generation: number, nowMs: number): Seat {
  return {
    ...{ id, name, generation, address: undefined, coresTotal: 0, level: 'normal', draining: false },
    ...{ isolation: 'full', isHeard: false, heardMs: nowMs, runs: new CompactingSet(), restUntilMs: 0 },
    ...{ stopping: false, resendAtMs: Infinity, restopAtMs: Infinity },
  };
}

/** Cores that nobody has, as far as we know. */
export function freeCores(seat: Seat): number {
  return Math.max(0, seat.coresTotal - seat.runs.size);
}
