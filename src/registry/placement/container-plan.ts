/**
 * What the leader should do about one container, read from the situation alone, so a new leader finds the same where
 * the old one stopped: at most one change of its record, or when to look again. Pure.
 */
import { planCopies } from './copies-plan.ts';
import { planEvacuation, planMove } from './move-plan.ts';
import { isWaitingNote, planHanded, planOpening, planRecovery } from './owner-plan.ts';
import type { PlacedContainer } from './placement-view.ts';
import { type Plan, type Situation, settled } from './situation.ts';

export function planContainer(situation: Situation, placed: PlacedContainer): Plan {
  const { view, leases, nowMs } = situation;
  const pool = view.pools.get(placed.pool)?.record;
  if (pool?.state !== 'active') return settled;
  const { record } = placed;
  const { owner, move } = record;
  if (move?.step === 'handed') return planHanded(situation, pool, placed);
  const standing = owner === undefined ? 'over' : leases.standing(nowMs, owner.node, owner.generation);
  if (owner === undefined || standing === 'over') return planRecovery(situation, pool, placed);
  if (record.phase === 'opening') return planOpening(situation, pool, placed);
  if (move !== undefined) return planMove(situation, pool, placed, move);
  if (standing !== 'live') return settled;
  // What it was waiting for is back before anything had to be done.
  if (isWaitingNote(record.note)) {
    const next = { ...record, note: '' };
    return { change: { placed, next, given: [], takenFrom: undefined, isRepair: false, events: [] } };
  }
  if (view.nodes.get(owner.node)?.mode === 'drained') return planEvacuation(situation, pool, placed);
  return planCopies(situation, pool, placed);
}
