/**
 * The next change of one container's record, or when to look again. Read from the context alone, so a new leader
 * continues where the old one stopped. Pure.
 */
import { planReplicas } from './replica-plan.ts';
import { planEvacuation, planMove } from './move-plan.ts';
import { isWaitingForReplicaNote, planHandover, planOpening, planRecovery } from './owner-plan.ts';
import type { PlacementContainer } from '../state/placement-view.ts';
import { type ContainerPlan, type PlanningContext, nothingToDo } from './planning-context.ts';

export function planContainer(situation: PlanningContext, placed: PlacementContainer): ContainerPlan {
  const { view, leases, nowMs } = situation;
  const pool = view.pools.get(placed.pool)?.record;
  if (pool?.state !== 'active') return nothingToDo;
  const { record } = placed;
  const { owner, move } = record;
  if (move?.step === 'handed') return planHandover(situation, pool, placed);
  const standing = owner === undefined ? 'over' : leases.status(nowMs, owner.node, owner.generation);
  if (owner === undefined || standing === 'over') return planRecovery(situation, pool, placed);
  if (record.phase === 'opening') return planOpening(situation, pool, placed);
  if (move !== undefined) return planMove(situation, pool, placed, move);
  if (standing !== 'live') return nothingToDo;
  // What it was waiting for is back before anything had to be done.
  if (isWaitingForReplicaNote(record.note)) {
    const next = { ...record, note: '' };
    return { change: { placed, next, receivers: [], previousOwner: undefined, isRepair: false, events: [] } };
  }
  if (view.nodes.get(owner.node)?.mode === 'drained') return planEvacuation(situation, pool, placed);
  return planReplicas(situation, pool, placed);
}
