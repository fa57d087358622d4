/**
 * The next change of one container's record, or when to reconcile it again. It follows from the context alone, so a new
 * leader continues where the former one stopped. Pure.
 */
import { planReplicas } from './replica-plan.ts';
import { planEvacuation, planMove, planStopHandover } from './move-plan.ts';
import { isWaitingForReplicaNote, planHandover, planOpening, planRecovery } from './owner-plan.ts';
import { type PlacementContainer, isStoppingNode } from '../state/placement-view.ts';
import { type ContainerPlan, type PlanningContext, nothingToDo } from './planning-context.ts';

export function planContainer(context: PlanningContext, container: PlacementContainer): ContainerPlan {
  const { view, leases, nowMs } = context;
  const pool = view.pools.get(container.pool)?.record;
  if (pool?.state !== 'active') return nothingToDo;
  const { record } = container;
  const { owner, move } = record;
  if (move?.step === 'handed') return planHandover(context, pool, container);
  const leaseStatus = owner === undefined ? 'expired' : leases.status(nowMs, owner.node, owner.generation);
  if (owner === undefined || leaseStatus === 'expired') return planRecovery(context, pool, container);
  if (record.phase === 'opening') return planOpening(context, pool, container);
  if (move !== undefined) return planMove(context, pool, container, move);
  if (leaseStatus !== 'valid') return nothingToDo;
  // The owner has returned before another node had to take over.
  if (isWaitingForReplicaNote(record.note)) {
    const next = { ...record, note: '' };
    return { update: { container, next, receivers: [], previousOwner: undefined, isRepair: false, events: [] } };
  }
  const node = view.nodes.get(owner.node);
  if (node?.mode === 'drained') return planEvacuation(context, pool, container);
  if (node !== undefined && isStoppingNode(node)) return planStopHandover(context, pool, container);
  return planReplicas(context, pool, container);
}
