/**
 * The containers that one node owns or replicates, with the revisions that a change has to compare. One way of counting
 * for drains and balance. Pure.
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
  readonly fullName: string;
  /** Local time at which this view first showed it at its owner. */
  readonly sinceMs: number;
  /** Local time at which its last move was cancelled; undefined if none was. */
  readonly moveCancelledMs: number | undefined;
};

export type NodeHoldings = {
  /** Owned containers: the load of the node. */
  readonly owned: ReadonlyMap<string, HeldContainer>;
  /** Containers of other owners whose state it keeps or is to keep. They do not count as load. */
  readonly replicated: ReadonlyMap<string, HeldContainer>;
};

export function containerFullName({ pool, container }: ContainerName): string {
  return `${pool}/${container}`;
}

/** Zero when the node holds no state of any container. */
export function heldCount({ owned, replicated }: NodeHoldings): number {
  return owned.size + replicated.size;
}

export function isMoving({ record }: HeldContainer): boolean {
  return record.move !== undefined;
}

const moveRetryDelayMs = 5_000;

/** When it may move again: after a cancelled move the cause gets time to pass. */
export function moveRetryDueMs({ moveCancelledMs }: HeldContainer): number {
  return moveCancelledMs === undefined ? -Infinity : moveCancelledMs + moveRetryDelayMs;
}

/** A container that is opening or moving does not start another move. */
export function canMove(held: HeldContainer): boolean {
  return !isMoving(held) && held.record.phase === 'serving';
}
