/**
 * Batches decisions into one registry transaction at a time, guarded by the fence. Replies, events and assignments
 * leave only after their commit.
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

/** Runs when what it waits for is recorded. */
export type OnCommitted = () => void;

type Piece = {
  /** Of what is no state. */
  readonly key: string;
  readonly job: ManagedJob | undefined;
  readonly op: () => RegistryOp;
  /** Most have one: see `added`. */
  releases: OnCommitted[];
  runs: ActiveAssignment[];
  /** Only after all blocks of the same job. */
  readonly isState: boolean;
  readonly isRemoval: boolean;
  /** At most one of these in a transaction. */
  readonly isHeavy: boolean;
  /** The status that it carries. */
  status: JobStatus | undefined;
};

export type CommitBatch = {
  readonly id: number;
  readonly pieces: readonly Piece[];
  readonly runs: readonly ActiveAssignment[];
  readonly transaction: RegistryTransaction;
  /** In the order in which the branch `otherwise` reads their registrations. */
  readonly workers: readonly NodeId[];
};

/** Below what the registry takes, so that the fence, the clock and the workers still fit. */
const opsMax = 100;
const bytesMax = 1_300_000;

export class CommitBatcher {
  /** States of jobs; by job, because a text would have to be hashed each time. */
  #states = new Map<ManagedJob, Piece>();
  /** Everything else. */
  readonly #others = new Map<string, Piece>();
  #flight: CommitBatch | undefined;
  #nextId = 1;
  /** The registry is full: what makes room goes first. */
  #wantsRoom = false;
  /** The time is to be recorded, also if there is nothing else. */
  #beats = false;

  get isInFlight(): boolean {
    return this.#flight !== undefined;
  }

  /** There is something to record. */
  get hasPending(): boolean {
    return this.#states.size > 0 || this.#others.size > 0 || this.#beats;
  }

  recordClock(): void {
    this.#beats = true;
  }

  /** The state of the job has changed. */
  markJob(job: ManagedJob): void {
    this.#statePiece(job);
  }

  markUnit(unit: ManagedUnit): void {
    this.#unitPiece(unit);
  }

  /** A worker is to have it, as soon as that is recorded. */
  assign(run: ActiveAssignment): void {
    const piece = this.#unitPiece(run.unit);
    piece.runs = added(piece.runs, run);
  }

  onceUnitCommitted(unit: ManagedUnit, release: OnCommitted): void {
    releaseWith(this.#unitPiece(unit), release);
  }

  /** When all that is known of the job now is recorded; at once if it is. */
  onceJobCommitted(job: ManagedJob, release: OnCommitted): void {
    if (this.#states.has(job) || this.#hasBlocks(job)) return this.markJobThen(job, release);
    const flying = this.#flight?.pieces.find((piece) => piece.job === job);
    if (flying === undefined) release();
    else releaseWith(flying, release);
  }

  markJobThen(job: ManagedJob, release: OnCommitted): void {
    releaseWith(this.#statePiece(job), release);
  }

  put(key: string, value: Uint8Array, release?: OnCommitted): void {
    this.#raw(key, () => ({ kind: 'put', key, value }), release);
  }

  remove(key: string, release?: OnCommitted): void {
    this.#raw(key, () => ({ kind: 'delete', range: onlyKey(key) }), release);
  }

  /** `isHeavy`: there may be thousands of keys, and one transaction must not change too many. */
  removeRange(range: KeyRange, isHeavy = false): void {
    this.#raw(`${range.from}*`, () => ({ kind: 'delete', range }), undefined, isHeavy);
  }

  /** The next transaction, unless one is under way or there is nothing to record. */
  nextBatch(fence: Uint8Array, clockMs: number): CommitBatch | undefined {
    if (this.#flight !== undefined || !this.hasPending) return undefined;
    this.#beats = false;
    const pieces: Piece[] = [];
    const ops: RegistryOp[] = [{ kind: 'put', key: jobKeys.clock, value: encodeManagerClock(clockMs) }];
    const workers = new Set<NodeId>();
    const late = new Set<ManagedJob>();
    let size = 0;
    let hasHeavy = false;
    const onlyRemovals = this.#wantsRoom && [...this.#others.values()].some(({ isRemoval }) => isRemoval);
    this.#wantsRoom = false;
    const load = (piece: Piece): void => {
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
      for (const run of piece.runs) workers.add(run.worker.id);
    };
    // No iterators: there are thousands of these each second.
    this.#others.forEach(load);
    this.#states.forEach(load);
    assert(pieces.length > 0 || !this.hasPending, 'a piece of the ledger fits into no transaction');
    this.#unstage(pieces);
    const flight: CommitBatch = {
      id: this.#nextId++,
      pieces,
      runs: pieces.flatMap((piece) => piece.runs),
      workers: [...workers],
      transaction: guarded(fence, ops, workers),
    };
    this.#flight = flight;
    return flight;
  }

  /** The one that is under way, if it has that number. */
  inFlight(id: number): CommitBatch | undefined {
    return this.#flight?.id === id ? this.#flight : undefined;
  }

  /** It is recorded. The caller releases what waited, and sends the runs. */
  committed(): void {
    this.#flight = undefined;
  }

  /** Removals go alone, the next time. */
  deleteFirst(): void {
    this.#wantsRoom = true;
  }

  /** It was refused: all of it is decided still, but for those runs. */
  requeue(flight: CommitBatch, isDropped: (run: ActiveAssignment) => boolean): void {
    this.#flight = undefined;
    for (const piece of flight.pieces) {
      const runs = piece.runs.filter((run) => !isDropped(run));
      const now = piece.isState ? this.#states.get(piece.job as ManagedJob) : this.#others.get(piece.key);
      if (now === undefined) this.#stage({ ...piece, runs, status: undefined });
      else {
        now.releases.unshift(...piece.releases);
        now.runs.unshift(...runs);
      }
    }
  }

  clear(): void {
    this.#states.clear();
    this.#others.clear();
    this.#flight = undefined;
    this.#beats = false;
  }

  #hasBlocks(job: ManagedJob): boolean {
    if (job.isInline) return false;
    for (const piece of this.#others.values()) if (piece.job === job) return true;
    return false;
  }

  #unstage(pieces: readonly Piece[]): void {
    const states = pieces.reduce((count, { isState }) => count + (isState ? 1 : 0), 0);
    // Mostly all of them: a map that shrinks is made anew several times.
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
      releases: [],
      runs: [],
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
      releases: [],
      runs: [],
      isState: true,
      isRemoval: false,
      isHeavy: false,
      status: undefined,
    });
  }

  #raw(key: string, op: () => RegistryOp, release?: OnCommitted, isHeavy = false): void {
    const releases = [...(this.#others.get(key)?.releases ?? []), ...(release === undefined ? [] : [release])];
    const isRemoval = op().kind === 'delete';
    const rest = { isState: false, isRemoval, isHeavy, status: undefined };
    this.#stage({ key, job: undefined, op, releases, runs: [], ...rest });
  }

  #stage(piece: Piece): Piece {
    if (piece.isState) this.#states.set(piece.job as ManagedJob, piece);
    else this.#others.set(piece.key, piece);
    return piece;
  }
}

function releaseWith(piece: Piece, release: OnCommitted): void {
  piece.releases = added(piece.releases, release);
}

/** The same list, or a new one that has room for one only: most never get more. */
function added<T>(list: T[], item: T): T[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}

/** The first time all of it, later what can change. */
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
  // Whoever is refused learns why.
  const otherwise = [jobKeys.manager, ...keys].map((key) => ({ kind: 'read', range: onlyKey(key), limit: 1 }) as const);
  return { compare, then, otherwise };
}
