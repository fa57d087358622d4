/** Replies to requests about manager groups: the own state, and the known managers, recent requesters included. */
import type { Clock, Identity, Streams } from '../../base/ports.ts';
import type { Leadership } from '../../base/registry.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';
import { RecentRequesters } from './recent-requesters.ts';
import type { DescribeGroupReply } from './group-info-client.ts';
import type { GroupStatusSources } from './group-status.ts';
import type { ManagerRole } from './manager-role.ts';
import type { ManagerDirectory } from './manager-directory.ts';

export type GroupInfoPorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly identity: Identity;
  readonly manager: ManagerRole | undefined;
  readonly leadership: Leadership;
  readonly managers: ManagerDirectory;
  readonly isExternal: boolean;
};

const managersMax = 64;

export class GroupInfo {
  readonly #ports: GroupInfoPorts;
  readonly #requesters: RecentRequesters;

  constructor(ports: GroupInfoPorts) {
    this.#ports = ports;
    this.#requesters = new RecentRequesters(ports.clock);
  }

  infoFor(from: Identity, group: string): DescribeGroupReply {
    const { identity, manager, leadership } = this.#ports;
    const { id, dc } = identity;
    if (from.id !== id && from.dc === group && from.roles.includes('manager')) this.#requesters.record(from);
    const managers = this.#knownManagers(group);
    if (manager !== undefined && group === dc) return { ...manager.groupInfo(from), managers };
    const { leader, term } = group === dc ? leadership.view() : { leader: undefined, term: 0 };
    const outside = { isCandidate: false, isMember: false, members: [], appliedIndex: 0 };
    return { kind: 'describeGroupReply', id, ...outside, leader, term, managers };
  }

  /** Sources for `groupStatus` of any manager group. */
  statusSources(members: GroupStatusSources['members']): GroupStatusSources {
    const { identity, streams, isExternal } = this.#ports;
    return { streams, identity, members, localInfo: (group) => this.infoFor(identity, group), isExternal };
  }

  /** From membership and recent requests; dead managers included, because one of them may have created the group. */
  #knownManagers(dc: string): readonly GroupMember[] {
    const { identity, managers } = this.#ports;
    const seen = dc === identity.dc ? managers.all() : [];
    const members = seen.map(({ id, name, host, port }): GroupMember => {
      return { id, name, host, port, standing: 'syncing' };
    });
    const others = this.#requesters.of(dc).filter(({ id }) => !members.some((member) => member.id === id));
    return [...members, ...others].slice(0, managersMax);
  }
}
