/**
 * The containers that one node owns or replicates, counted alike for drains and balance, with the revisions a change
 * has to name. Pure.
 */
import type { ContainerName } from '../../registry/cluster-keys.ts';
import type { ContainerRecord } from './container-records.ts';

export type Versioned<T> = {
  readonly record: T;
  readonly modRevision: number;
  readonly createRevision: number;
};

export type HeldContainer = Versioned<ContainerRecord> & {
  readonly name: ContainerName;
  /** `pool/container`. */
  readonly text: string;
  /** By our clock: when we saw it come to this node. */
  readonly sinceMs: number;
  /** By our clock: when a move of it ended where it had begun. */
  readonly stayedMs: number | undefined;
};

export type NodeHoldings = {
  /** The containers that it owns: they are its load. */
  readonly owned: ReadonlyMap<string, HeldContainer>;
  /** Containers of others whose state it keeps as well, or is to keep. They only follow, and are no load. */
  readonly copied: ReadonlyMap<string, HeldContainer>;
};

export function containerText({ pool, container }: ContainerName): string {
  return `${pool}/${container}`;
}

/** Everything that keeps a node from being empty. */
export function heldCount({ owned, copied }: NodeHoldings): number {
  return owned.size + copied.size;
}

export function isMoving({ record }: HeldContainer): boolean {
  return record.move !== undefined;
}

const restMs = 5_000;

/** From when on it is moved again: what stopped its last move is given some time to show, or to pass. */
export function moveRetryDueMs({ stayedMs }: HeldContainer): number {
  return stayedMs === undefined ? -Infinity : stayedMs + restMs;
}

/** A container that is being opened, or is on its way already, stays where it is until that is over. */
export function canMove(held: HeldContainer): boolean {
  return !isMoving(held) && held.record.phase === 'serving';
}
