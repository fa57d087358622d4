/**
 * The next change of one container's record, or when to reconcile it again. It follows from the context alone, so a new
 * leader continues where the former one stopped. Pure.
 */
import { planReplicas } from './replica-plan.ts';
import { planEvacuation, planMove } from './move-plan.ts';
import { isWaitingForReplicaNote, planHandover, planOpening, planRecovery } from './owner-plan.ts';
import type { PlacementContainer } from '../state/placement-view.ts';
import { type ContainerPlan, type PlanningContext, nothingToDo } from './planning-context.ts';

export function planContainer(context: PlanningContext, placed: PlacementContainer): ContainerPlan {
  const { view, leases, nowMs } = context;
  const pool = view.pools.get(placed.pool)?.record;
  if (pool?.state !== 'active') return nothingToDo;
  const { record } = placed;
  const { owner, move } = record;
  if (move?.step === 'handed') return planHandover(context, pool, placed);
  const leaseStatus = owner === undefined ? 'expired' : leases.status(nowMs, owner.node, owner.generation);
  if (owner === undefined || leaseStatus === 'expired') return planRecovery(context, pool, placed);
  if (record.phase === 'opening') return planOpening(context, pool, placed);
  if (move !== undefined) return planMove(context, pool, placed, move);
  if (leaseStatus !== 'valid') return nothingToDo;
  // The owner has returned before another node had to take over.
  if (isWaitingForReplicaNote(record.note)) {
    const next = { ...record, note: '' };
    return { change: { placed, next, receivers: [], previousOwner: undefined, isRepair: false, events: [] } };
  }
  if (view.nodes.get(owner.node)?.mode === 'drained') return planEvacuation(context, pool, placed);
  return planReplicas(context, pool, placed);
}
