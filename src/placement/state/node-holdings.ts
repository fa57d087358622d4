/**
 * The containers that one node owns or replicates, counted alike for drains and balance, with the revisions a change
 * has to name. Pure.
 *
 * What a node can hold, in two kinds that are counted, drained and evened out alike:
 *
 *   assignment   a key below its node; leaves when the node has released it, and is then given to anybody
 *   container    a record with its owner and copies; leaves by a move to one node, which takes its state along
 *
 * Both are as the registry shows them, with the revision that whoever wants to change them has to name. Pure.
 */
import type { ContainerName } from '../../registry/cluster-keys.ts';
import type { ContainerRecord } from './container-records.ts';
import type { AssignedRecord } from '../../registry/assignment/record.ts';

export type Versioned<T> = {
  readonly record: T;
  readonly modRevision: number;
  readonly createRevision: number;
};

type Named = {
  readonly name: ContainerName;
  /** `pool/container`. */
  readonly text: string;
  /** By our clock: when we saw it come to this node. */
  readonly sinceMs: number;
};

export type KnownAssignment = Versioned<AssignedRecord> &
  Named & {
    readonly kind: 'assignment';
    /** By our clock: since when it is asked to leave its node. */
    readonly releasingMs: number | undefined;
  };

export type HeldContainer = Versioned<ContainerRecord> &
  Named & {
    readonly kind: 'container';
    /** By our clock: when a move of it ended where it had begun. */
    readonly stayedMs: number | undefined;
  };

export type Held = KnownAssignment | HeldContainer;

export type NodeHoldings = {
  readonly assignments: ReadonlyMap<string, KnownAssignment>;
  /** The containers that it owns. */
  readonly owned: ReadonlyMap<string, HeldContainer>;
  /** Containers of others whose state it keeps as well, or is to keep. */
  readonly copied: ReadonlyMap<string, HeldContainer>;
};

/** Two things with the same name never move at the same time; a container is never taken for an assignment. */
export function heldName({ kind, text }: Pick<Held, 'kind' | 'text'>): string {
  return kind === 'container' ? `container ${text}` : text;
}

/** What is load: copies are not, they only follow. */
export function* containersHeldBy(node: NodeHoldings): Generator<Held> {
  yield* node.assignments.values();
  yield* node.owned.values();
}

/** Everything that keeps a node from being empty. */
export function heldCount({ assignments, owned, copied }: NodeHoldings): number {
  return assignments.size + owned.size + copied.size;
}

export function findHeldContainer(node: NodeHoldings, { kind, text }: Pick<Held, 'kind' | 'text'>): Held | undefined {
  return kind === 'container' ? node.owned.get(text) : node.assignments.get(text);
}

/** One container is as heavy as another: what it costs shows in the measured load of its node. */
export function loadWeight(held: Held): number {
  return held.kind === 'container' ? 1 : held.record.hint.weight;
}

export function isMoving(held: Held): boolean {
  return held.kind === 'container' ? held.record.move !== undefined : held.record.releasing !== undefined;
}

const restMs = 5_000;

/** From when on it is moved again: what stopped its last move is given some time to show, or to pass. */
export function moveRetryDueMs(held: Held): number {
  return held.kind === 'container' && held.stayedMs !== undefined ? held.stayedMs + restMs : -Infinity;
}

/** A container that is being opened, or is on its way already, stays where it is until that is over. */
export function canMove(held: Held): boolean {
  if (isMoving(held)) return false;
  return held.kind === 'assignment' || held.record.phase === 'serving';
}
