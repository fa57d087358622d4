/**
 * Batches decisions into one registry transaction at a time, guarded by the fence. Replies, events and assignments
 * leave only after their commit; a refused transaction loses no decision.
 */
import { assert } from '../../../base/assert.ts';
import { isRemusterError } from '../../../base/errors.ts';
import type { NodeId } from '../../../base/ids.ts';
import {
  type KeyRange,
  type RegistryCompare,
  type RegistryOp,
  type RegistryTransaction,
  onlyKey,
} from '../../../base/registry.ts';
import { clusterKey } from '../../../registry/cluster-keys.ts';
import type { JobStatus } from '../../job-types.ts';
import { jobKeys } from '../../job-keys.ts';
import {
  unitsPerBlock,
  encodeUnitBlock,
  encodeManagerClock,
  encodeJobRecord,
  encodeJobState,
} from '../../records/job-record.ts';
import type { ManagedJob, ActiveAssignment, ManagedUnit, ManagedWorkflow } from '../model/managed-job.ts';
import { toJobRecord, toSlimJobState, toJobStateRecord, toUnitRecord } from '../model/record-conversion.ts';

/** Runs after the commit that it waits for. */
export type OnCommitted = () => void;

type Piece = {
  /** Empty for the state of a job. */
  readonly key: string;
  readonly job: ManagedJob | undefined;
  readonly op: () => RegistryOp;
  /** Most pieces have one: see `appended`. */
  callbacks: OnCommitted[];
  assignments: ActiveAssignment[];
  /** Committed only with or after all blocks of the same job. */
  readonly isState: boolean;
  readonly isRemoval: boolean;
  /** At most one heavy piece per transaction. */
  readonly isHeavy: boolean;
  /** The status that this commit records. */
  status: JobStatus | undefined;
};

export type CommitBatch = {
  readonly id: number;
  readonly pieces: readonly Piece[];
  readonly assignments: readonly ActiveAssignment[];
  readonly transaction: RegistryTransaction;
  /** In the order in which `otherwise` reads their registrations. */
  readonly workers: readonly NodeId[];
};

/** Below the limits of the registry, so that the fence, the clock and the registrations still fit. */
const opsMax = 100;
const bytesMax = 1_300_000;

export class CommitBatcher {
  /** By job and not by key, because a string would be hashed on each use. */
  #states = new Map<ManagedJob, Piece>();
  /** Everything but job states, by key. */
  readonly #others = new Map<string, Piece>();
  #inFlight: CommitBatch | undefined;
  #nextId = 1;
  /** The registry is full: the next transaction contains only deletions, if there are any. */
  #deletesFirst = false;
  /** The manager clock is recorded even without another change. */
  #isClockDue = false;

  get isInFlight(): boolean {
    return this.#inFlight !== undefined;
  }

  get hasPending(): boolean {
    return this.#states.size > 0 || this.#others.size > 0 || this.#isClockDue;
  }

  recordClock(): void {
    this.#isClockDue = true;
  }

  /** The state of the job has changed. */
  markJob(job: ManagedJob): void {
    this.#statePiece(job);
  }

  markUnit(unit: ManagedUnit): void {
    this.#unitPiece(unit);
  }

  /** Records the assignment; the caller sends it after the commit. */
  assign(assignment: ActiveAssignment): void {
    const piece = this.#unitPiece(assignment.unit);
    piece.assignments = appended(piece.assignments, assignment);
  }

  onceUnitCommitted(unit: ManagedUnit, callback: OnCommitted): void {
    addCallback(this.#unitPiece(unit), callback);
  }

  /** Runs when the current state of the job is recorded, at once if it is. */
  onceJobCommitted(job: ManagedJob, callback: OnCommitted): void {
    if (this.#states.has(job) || this.#hasBlocks(job)) return this.markJobThen(job, callback);
    const inFlight = this.#inFlight?.pieces.find((piece) => piece.job === job);
    if (inFlight === undefined) callback();
    else addCallback(inFlight, callback);
  }

  markJobThen(job: ManagedJob, callback: OnCommitted): void {
    addCallback(this.#statePiece(job), callback);
  }

  put(key: string, value: Uint8Array, callback?: OnCommitted): void {
    this.#stageRaw(key, () => ({ kind: 'put', key, value }), callback);
  }

  remove(key: string, callback?: OnCommitted): void {
    this.#stageRaw(key, () => ({ kind: 'delete', range: onlyKey(key) }), callback);
  }

  /** `isHeavy`: the range may have thousands of keys, and one transaction must not change too many. */
  removeRange(range: KeyRange, isHeavy = false): void {
    this.#stageRaw(`${range.from}*`, () => ({ kind: 'delete', range }), undefined, isHeavy);
  }

  /** The next transaction, unless one is in flight or nothing is pending. */
  nextBatch(fence: Uint8Array, clockMs: number): CommitBatch | undefined {
    if (this.#inFlight !== undefined || !this.hasPending) return undefined;
    this.#isClockDue = false;
    const pieces: Piece[] = [];
    const ops: RegistryOp[] = [{ kind: 'put', key: jobKeys.clock, value: encodeManagerClock(clockMs) }];
    const workers = new Set<NodeId>();
    const late = new Set<ManagedJob>();
    let size = 0;
    let hasHeavy = false;
    const onlyRemovals = this.#deletesFirst && [...this.#others.values()].some(({ isRemoval }) => isRemoval);
    this.#deletesFirst = false;
    const add = (piece: Piece): void => {
      if (onlyRemovals && !piece.isRemoval) return;
      const isFull = ops.length >= opsMax || workers.size >= opsMax || size >= bytesMax;
      const full = isFull || (piece.isHeavy && hasHeavy);
      const op = full || (piece.isState && late.has(piece.job as ManagedJob)) ? undefined : piece.op();
      const bytes = op?.kind === 'put' ? op.value.length + op.key.length : 64;
      if (op === undefined || (size > 0 && size + bytes > bytesMax)) {
        if (piece.job !== undefined) late.add(piece.job);
        return;
      }
      size += bytes;
      hasHeavy ||= piece.isHeavy;
      ops.push(op);
      if (piece.isState) piece.status = piece.job?.status;
      pieces.push(piece);
      for (const { worker } of piece.assignments) workers.add(worker.id);
    };
    // No iterators: thousands of pieces per second.
    this.#others.forEach(add);
    this.#states.forEach(add);
    assert(pieces.length > 0 || !this.hasPending, 'a piece is too large for a transaction');
    this.#unstage(pieces);
    const batch: CommitBatch = {
      id: this.#nextId++,
      pieces,
      assignments: pieces.flatMap((piece) => piece.assignments),
      workers: [...workers],
      transaction: guarded(fence, ops, workers),
    };
    this.#inFlight = batch;
    return batch;
  }

  /** The batch in flight if it has that id. */
  inFlight(id: number): CommitBatch | undefined {
    return this.#inFlight?.id === id ? this.#inFlight : undefined;
  }

  /** The batch in flight is recorded. The caller runs its callbacks and sends its assignments. */
  committed(): void {
    this.#inFlight = undefined;
  }

  /** The next transaction contains only deletions. */
  deleteFirst(): void {
    this.#deletesFirst = true;
  }

  /** The batch was refused: everything in it is pending again, except the dropped assignments. */
  requeue(batch: CommitBatch, isDropped: (assignment: ActiveAssignment) => boolean): void {
    this.#inFlight = undefined;
    for (const piece of batch.pieces) {
      const assignments = piece.assignments.filter((assignment) => !isDropped(assignment));
      const pending = piece.isState ? this.#states.get(piece.job as ManagedJob) : this.#others.get(piece.key);
      if (pending === undefined) this.#stage({ ...piece, assignments, status: undefined });
      else {
        pending.callbacks.unshift(...piece.callbacks);
        pending.assignments.unshift(...assignments);
      }
    }
  }

  clear(): void {
    this.#states.clear();
    this.#others.clear();
    this.#inFlight = undefined;
    this.#isClockDue = false;
  }

  #hasBlocks(job: ManagedJob): boolean {
    if (job.isInline) return false;
    for (const piece of this.#others.values()) if (piece.job === job) return true;
    return false;
  }

  #unstage(pieces: readonly Piece[]): void {
    const states = pieces.reduce((count, { isState }) => count + (isState ? 1 : 0), 0);
    // Usually all of them: a new map is cheaper than one that rehashes while it shrinks.
    if (states === this.#states.size) this.#states = new Map();
    for (const { isState, key, job } of pieces) {
      if (!isState) this.#others.delete(key);
      else if (this.#states.size > 0) this.#states.delete(job as ManagedJob);
    }
  }

  #unitPiece(unit: ManagedUnit): Piece {
    const { workflow } = unit;
    const { job } = workflow;
    if (job.isInline || unit === workflow.plan || unit === workflow.finish) return this.#statePiece(job);
    const block = Math.floor(unit.number / unitsPerBlock);
    const key = jobKeys.unitBlock(job.id, workflow.index, block);
    const found = this.#others.get(key);
    if (found !== undefined) return found;
    job.hasBlocks = true;
    return this.#stage({
      key,
      job,
      op: () => blockOp(key, workflow, block),
      callbacks: [],
      assignments: [],
      isState: false,
      isRemoval: false,
      isHeavy: false,
      status: undefined,
    });
  }

  #statePiece(job: ManagedJob): Piece {
    const found = this.#states.get(job);
    if (found !== undefined) return found;
    return this.#stage({
      key: '',
      job,
      op: () => stateOp(job),
      callbacks: [],
      assignments: [],
      isState: true,
      isRemoval: false,
      isHeavy: false,
      status: undefined,
    });
  }

  #stageRaw(key: string, op: () => RegistryOp, callback?: OnCommitted, isHeavy = false): void {
    const callbacks = [...(this.#others.get(key)?.callbacks ?? []), ...(callback === undefined ? [] : [callback])];
    const isRemoval = op().kind === 'delete';
    const rest = { isState: false, isRemoval, isHeavy, status: undefined };
    this.#stage({ key, job: undefined, op, callbacks, assignments: [], ...rest });
  }

  #stage(piece: Piece): Piece {
    if (piece.isState) this.#states.set(piece.job as ManagedJob, piece);
    else this.#others.set(piece.key, piece);
    return piece;
  }
}

function addCallback(piece: Piece, callback: OnCommitted): void {
  piece.callbacks = appended(piece.callbacks, callback);
}

/** Appends in place, or creates a list without spare capacity: most lists never grow beyond one item. */
function appended<T>(list: T[], item: T): T[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}

/** The first commit writes the whole job, later ones its state. */
function stateOp(job: ManagedJob): RegistryOp {
  if (job.isRecorded) return { kind: 'put', key: job.stateKey, value: stateBytes(job) };
  return { kind: 'put', key: jobKeys.job(job.id), value: encodeJobRecord(toJobRecord(job)) };
}

function stateBytes(job: ManagedJob): Uint8Array {
  try {
    return encodeJobState(toJobStateRecord(job));
  } catch (error) {
    if (!isRemusterError(error, 'TOO_LARGE')) throw error;
    return encodeJobState(toSlimJobState(job));
  }
}

function blockOp(key: string, workflow: ManagedWorkflow, block: number): RegistryOp {
  const units = workflow.units.slice(block * unitsPerBlock, (block + 1) * unitsPerBlock);
  return { kind: 'put', key, value: encodeUnitBlock(units.map(toUnitRecord)) };
}

function guarded(fence: Uint8Array, then: readonly RegistryOp[], workers: ReadonlySet<NodeId>): RegistryTransaction {
  const keys = [...workers].map((node) => clusterKey({ kind: 'registration', node }));
  const compare: RegistryCompare[] = [
    { key: jobKeys.manager, target: 'value', is: 'equal', than: fence },
    ...keys.map((key) => ({ key, target: 'version', is: 'greater', than: 0 }) as const),
  ];
  // A refused transaction returns the fence and the registrations, which tell why.
  const otherwise = [jobKeys.manager, ...keys].map((key) => ({ kind: 'read', range: onlyKey(key), limit: 1 }) as const);
  return { compare, then, otherwise };
}
