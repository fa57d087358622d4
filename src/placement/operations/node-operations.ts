/**
 * Balance report, rebalance preview, and preflight, start and progress of drains, on any node. Reads the registry and
 * writes only the start of a drain; the assigner of the leader executes it.
 */
import { type Done, RemusterError, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import type { Registry, RegistryEntry, RegistryTransaction } from '../../base/registry.ts';
import { type NodeStateRecord, encodeRegistrationRecord } from '../../registration/registration-records.ts';
import { isLateReturn } from '../../registration/node-modes.ts';
import { clusterKey, keyRanges } from '../../registry/cluster-keys.ts';
import { type BalanceReport, balanceReport } from '../balance/balance-report.ts';
import { ClusterView, type KnownNode, isActive } from '../state/cluster-view.ts';
import { heldCount } from '../state/node-holdings.ts';
import { type DrainProgress, drainPreflight, drainProgress } from './drain-progress.ts';
import { type DrainRecord, drainDefaults, drainLimits, encodeDrain } from '../state/drain-record.ts';
import type { RebalanceOptions } from '../balance/rebalance-options.ts';
import { type RebalancePlan, planRebalance } from '../balance/rebalance-plan.ts';
import { rebalanceLimits, rebalanceNodes } from '../balance/rebalancer.ts';
import { nodeLoads, inFlightLoad } from '../plans/move-target.ts';

/** A node as one read of the registry shows it. */
export type NodeSnapshot = {
  readonly isRegistered: boolean;
  readonly state: NodeStateRecord | undefined;
  readonly drain: DrainProgress;
};

export type DrainRequest = { readonly deadlineMs?: number; readonly parallelMax?: number; readonly note?: string };

const timeoutMs = 5_000;
const pageEntries = 1_000;
const conflictsMax = 5;

export class NodeOperations {
  readonly #registry: Pick<Registry, 'range' | 'transact'>;
  readonly #clock: Clock;
  readonly #options: RebalanceOptions;
  readonly #isGone: (node: NodeId) => boolean;

  /** `isGone`: membership has declared the node dead, which the registry shows later. */
  constructor(
    registry: Pick<Registry, 'range' | 'transact'>,
    clock: Clock,
    options: RebalanceOptions,
    isGone: (node: NodeId) => boolean = () => false,
  ) {
    this.#registry = registry;
    this.#clock = clock;
    this.#options = options;
    this.#isGone = isGone;
  }

  balance(done: Done<BalanceReport>): void {
    this.#readView((outcome) => done(outcome.ok ? success(this.#balanceOf(outcome.value)) : outcome));
  }

  /** The moves that a rebalance would start now; nothing moves. */
  rebalancePlan(movesMax: number, done: Done<RebalancePlan>): void {
    this.#readView((outcome) => {
      if (!outcome.ok) return done(outcome);
      const nodes = rebalanceNodes(outcome.value, this.#clock.nowMs(), inFlightLoad(outcome.value), this.#isGone);
      done(planRebalance(nodes, this.#options, { movesMax, isManual: true }));
    });
  }

  #balanceOf(view: ClusterView): BalanceReport {
    const { strategy, variationMax } = this.#options;
    const nodes = [...view.nodes.values()].filter(
      (node) => (node.isWorker && node.registered !== undefined) || heldCount(node) > 0,
    );
    const loads = nodeLoads(nodes, new Map());
    const rows = nodes.map((node, index) => {
      const { id, count, report } = loads[index] as (typeof loads)[number];
      const { name, replicated } = node;
      return { id, count, report, name, copies: replicated.size, isActive: isActive(node), isGone: this.#isGone(id) };
    });
    const goal = { strategy, variationMax, movesToEven: this.#movesToEven(view) };
    return balanceReport(goal, rows, view.unowned.size);
  }

  /** Moves of a rebalance that stops only when no move helps any more. */
  #movesToEven(view: ClusterView): number {
    const nodes = rebalanceNodes(view, this.#clock.nowMs(), inFlightLoad(view), this.#isGone);
    const options = { ...this.#options, mode: 'manual' as const, variationMax: 0 };
    const plan = planRebalance(nodes, options, { movesMax: rebalanceLimits.movesMax, isManual: true });
    return plan.ok ? plan.value.moves.length : 0;
  }

  /** Why a drain could not end; empty if it can start. */
  drainPreflight(node: NodeId, done: Done<readonly string[]>): void {
    this.#readView((outcome) => done(outcome.ok ? success(drainPreflight(outcome.value, node)) : outcome));
  }

  drainProgress(node: NodeId, done: Done<DrainProgress>): void {
    this.#readView((outcome) => done(outcome.ok ? success(drainProgress(outcome.value, node)) : outcome));
  }

  /** Registration, state and drain of one read: they never contradict each other. */
  nodeSnapshot(id: NodeId, done: Done<NodeSnapshot>): void {
    this.#readView((outcome) => {
      if (!outcome.ok) return done(outcome);
      const node = outcome.value.nodes.get(id);
      const drain = drainProgress(outcome.value, id);
      done(success({ isRegistered: node?.registered !== undefined, state: node?.state?.record, drain }));
    });
  }

  /** Starts a drain, which continues without the caller. A node that is draining or drained already is no error. */
  drain(node: NodeId, request: DrainRequest, done: Done<DrainProgress>): void {
    const record = { ...drainDefaults, ...definedIn(request) };
    const invalid = validateDrain(record);
    if (invalid !== undefined) this.#clock.schedule(0, () => done({ ok: false, error: invalid }));
    else this.#drain(node, record, request.note ?? '', conflictsMax, done);
  }

  /**
   * For a node that is drained already. If it was drained for returning late, `rejoin` could activate it: the operator
   * becomes the reason of the drain, which lasts.
   */
  #takeOverDrain(
    node: KnownNode,
    state: NodeStateRecord,
    { record, note, conflicts }: { record: DrainRecord; note: string; conflicts: number },
    done: Done<DrainProgress>,
  ): void {
    if (!isLateReturn(state.reason)) return this.drainProgress(node.id, done);
    const sinceWallMs = Math.max(0, Math.floor(this.#clock.wallMs()));
    const transaction = recordDrainTransaction(node, { ...state, reason: 'admin_drain', sinceWallMs, note });
    this.#registry.transact(transaction, { timeoutMs }, (outcome) => {
      if (!outcome.ok) done(outcome);
      else if (outcome.value.succeeded) this.drainProgress(node.id, done);
      else if (conflicts > 0) this.#drain(node.id, record, note, conflicts - 1, done);
      else done(failure('CAPACITY', 'the state of the node changes too often: try again'));
    });
  }

  #drain(id: NodeId, record: DrainRecord, note: string, conflicts: number, done: Done<DrainProgress>): void {
    this.#readView((read) => {
      if (!read.ok) return done(read);
      const view = read.value;
      const node = view.nodes.get(id);
      const state = node?.state?.record;
      if (state?.mode === 'draining') return done(success(drainProgress(view, id)));
      if (node !== undefined && state?.mode === 'drained')
        return this.#takeOverDrain(node, state, { record, note, conflicts }, done);
      const [blocked] = drainPreflight(view, id);
      if (blocked !== undefined || node === undefined || state === undefined)
        return done(failure('PRECONDITION', blocked ?? `there is no node ${id}`, 'no'));
      const sinceWallMs = Math.max(0, Math.floor(this.#clock.wallMs()));
      const next = { ...state, mode: 'draining', reason: 'admin_drain', sinceWallMs, note } as const;
      const transaction = startDrainTransaction(node, next, { ...record, total: heldCount(node) });
      this.#registry.transact(transaction, { timeoutMs }, (outcome) => {
        if (!outcome.ok) done(outcome);
        else if (outcome.value.succeeded) this.drainProgress(id, done);
        else if (conflicts > 0) this.#drain(id, record, note, conflicts - 1, done);
        else done(failure('CAPACITY', 'the state of the node changes too often: try again'));
      });
    });
  }

  #readView(done: Done<ClusterView>): void {
    const page = (from: string, before: readonly RegistryEntry[]): void => {
      this.#registry.range({ ...keyRanges.cluster, from }, { limit: pageEntries, timeoutMs }, (outcome) => {
        if (!outcome.ok) return done(outcome);
        const { entries, more, revision } = outcome.value;
        const all = [...before, ...entries];
        const last = entries.at(-1);
        if (more && last !== undefined) page(`${last.key}\0`, all);
        else done(success(ClusterView.from(all, revision, this.#clock.nowMs())));
      });
    };
    page(keyRanges.cluster.from, []);
  }
}

/** The node keeps serving while its containers move away. */
function startDrainTransaction(
  { id, state }: KnownNode,
  next: NodeStateRecord,
  drain: DrainRecord,
): RegistryTransaction {
  const key = clusterKey({ kind: 'state', node: id });
  return {
    compare: [{ key, target: 'modRevision', is: 'equal', than: state?.modRevision ?? 0 }],
    then: [
      { kind: 'put', key, value: encodeRegistrationRecord(next) },
      { kind: 'put', key: clusterKey({ kind: 'drain', node: id }), value: encodeDrain(drain) },
    ],
    otherwise: [],
  };
}

/** The node is drained and holds nothing: only the reason of the drain changes. */
function recordDrainTransaction({ id, state }: KnownNode, next: NodeStateRecord): RegistryTransaction {
  const key = clusterKey({ kind: 'state', node: id });
  return {
    compare: [{ key, target: 'modRevision', is: 'equal', than: state?.modRevision ?? 0 }],
    then: [{ kind: 'put', key, value: encodeRegistrationRecord(next) }],
    otherwise: [],
  };
}

function definedIn({ deadlineMs, parallelMax }: DrainRequest): Partial<DrainRecord> {
  return { ...(deadlineMs !== undefined && { deadlineMs }), ...(parallelMax !== undefined && { parallelMax }) };
}

function validateDrain({ deadlineMs, parallelMax }: DrainRecord): RemusterError | undefined {
  const { deadlineMsMin, deadlineMsMax, parallelMax: limit } = drainLimits;
  if (!(deadlineMs >= deadlineMsMin && deadlineMs <= deadlineMsMax))
    return new RemusterError('BAD_ARGUMENT', `the deadline of a drain is ${deadlineMsMin} to ${deadlineMsMax} ms`);
  if (!(Number.isInteger(parallelMax) && parallelMax >= 1 && parallelMax <= limit))
    return new RemusterError('BAD_ARGUMENT', `a drain moves 1 to ${limit} containers at a time`);
  return undefined;
}
