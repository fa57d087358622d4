/** What is shown of a member: a copy for people and for the other parts of the node, never the member itself. */
import type { ValueOf } from '../messages/kind.ts';
import type { memberView } from '../messages/diagnostics.ts';
import type { NodeEntry } from '../messages/node-entry.ts';
import type { Member } from './member-table.ts';
import { Self } from './self.ts';
import { pointOnWire } from './wire-coordinate.ts';

export type MemberView = ValueOf<typeof memberView>;

export function viewOf(member: Member, nowMs: number): MemberView {
  const { entry, state, incarnation, health, stuck, lagMs, coordinate } = member;
  const { meanMs } = member.roundTrip;
  return {
    entry,
    state: state === 'alive' && member.probeFailed ? 'probe-failed' : state,
    incarnation,
    health,
    silentMs: Math.max(0, Math.floor(nowMs - member.heardMs)),
    stuck,
    lagMs,
    roundTripUs: meanMs === undefined ? undefined : Math.round(meanMs * 1_000),
    coordinate: coordinate === undefined ? undefined : pointOnWire(coordinate),
  };
}

/** What is shown of ourselves before membership has begun. */
export function firstView(entry: NodeEntry): MemberView {
  return viewOfSelf(new Self(entry, 0), 0);
}

export function viewOfSelf(self: Self, health: number): MemberView {
  const { entry, incarnation, stuck, lagMs, leaving, out } = self;
  const coordinate = pointOnWire(self.coordinate);
  const state = leaving ? 'left' : out ? 'dead' : 'alive';
  return { entry, state, incarnation, health, silentMs: 0, stuck, lagMs, roundTripUs: undefined, coordinate };
}
