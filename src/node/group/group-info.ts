/**
 * What this node tells about a manager group: its own state, and which managers it knows, recent requesters included.
 */
import type { Clock, Identity, Streams } from '../../base/ports.ts';
import type { Leadership } from '../../base/registry.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';
import { RecentRequesters } from './askers.ts';
import type { DescribeGroupReply } from './group-info-client.ts';
import type { GroupStatusSources } from './group-status.ts';
import type { ManagerRole } from './manager-role.ts';
import type { ManagerDirectory } from './manager-directory.ts';

export type GroupInfoParts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly identity: Identity;
  readonly seat: ManagerRole | undefined;
  readonly leadership: Leadership;
  readonly managers: ManagerDirectory;
  readonly isExternal: boolean;
};

const toldMax = 64;

export class GroupInfo {
  readonly #parts: GroupInfoParts;
  readonly #askers: RecentRequesters;

  constructor(parts: GroupInfoParts) {
    this.#parts = parts;
    this.#askers = new RecentRequesters(parts.clock);
  }

  infoFor(from: Identity, group: string): DescribeGroupReply {
    const { identity, seat, leadership } = this.#parts;
    const { id, dc } = identity;
    if (from.id !== id && from.dc === group && from.roles.includes('manager')) this.#askers.note(from);
    const managers = this.#heardOf(group);
    if (seat !== undefined && group === dc) return { ...seat.groupInfo(from), managers };
    const { leader, term } = group === dc ? leadership.view() : { leader: undefined, term: 0 };
    const nothing = { isCandidate: false, isMember: false, members: [], appliedIndex: 0 };
    return { kind: 'describeGroupReply', id, ...nothing, leader, term, managers };
  }

  /** For who asks about any group of managers. */
  statusParts(members: GroupStatusSources['members']): GroupStatusSources {
    const { identity, streams, isExternal } = this.#parts;
    return { streams, identity, members, tell: (group) => this.infoFor(identity, group), isExternal };
  }

  /** By membership, or because they asked; dead ones too, for one of them may have begun the group. */
  #heardOf(dc: string): readonly GroupMember[] {
    const { identity, managers } = this.#parts;
    const seen = dc === identity.dc ? managers.all() : [];
    const members = seen.map(({ id, name, host, port }): GroupMember => {
      return { id, name, host, port, standing: 'syncing' };
    });
    const others = this.#askers.of(dc).filter(({ id }) => !members.some((member) => member.id === id));
    return [...members, ...others].slice(0, toldMax);
  }
}
