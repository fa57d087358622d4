/** Copies of a member for operators and other parts of the node. Never hands out the member itself. */
import type { ValueOf } from '../../messages/codec/field-type.ts';
import type { memberView } from '../../messages/diagnostics.ts';
import type { NodeEntry } from '../../messages/node-entry.ts';
import type { Member } from './member-table.ts';
import { LocalMember } from './local-member.ts';
import { encodeCoordinate } from './coordinates.ts';

export type MemberView = ValueOf<typeof memberView>;

export function memberViewOf(member: Member, nowMs: number): MemberView {
  const { entry, state, incarnation, health, stuck, lagMs, coordinate } = member;
  const { meanMs } = member.roundTrip;
  return {
    entry,
    state: state === 'alive' && member.probeFailed ? 'probe-failed' : state,
    incarnation,
    health,
    silentMs: Math.max(0, Math.floor(nowMs - member.lastMessageMs)),
    stuck,
    lagMs,
    roundTripUs: meanMs === undefined ? undefined : Math.round(meanMs * 1_000),
    coordinate: coordinate === undefined ? undefined : encodeCoordinate(coordinate),
  };
}

/** The view of this node before membership has started. */
export function initialLocalView(entry: NodeEntry): MemberView {
  return localMemberView(new LocalMember(entry, 0), 0);
}

export function localMemberView(self: LocalMember, health: number): MemberView {
  const { entry, incarnation, stuck, lagMs, leaving, withdrawn } = self;
  const coordinate = encodeCoordinate(self.coordinate);
  const state = leaving ? 'left' : withdrawn ? 'dead' : 'alive';
  return { entry, state, incarnation, health, silentMs: 0, stuck, lagMs, roundTripUs: undefined, coordinate };
}
