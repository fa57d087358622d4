/**
 * Leader, term and members of the group of a datacenter: from this node, or from the first manager there that replies.
 */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Identity, Streams } from '../../base/ports.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';
import type { MemberRow } from '../membership/member-rows.ts';
import { type DescribeGroupReply, groupInfoClient } from './group-info-client.ts';

export type GroupStatus = {
  readonly group: string;
  readonly leader: NodeId | undefined;
  readonly term: number | undefined;
  readonly members: readonly GroupMember[];
  /** The leadership is decided outside (etcd): the managers are its candidates, and there is no group. */
  readonly isExternal: boolean;
};

export type GroupStatusSources = {
  readonly streams: Pick<Streams, 'request'>;
  readonly identity: Identity;
  readonly members: () => readonly MemberRow[];
  /** The reply of this node itself. */
  readonly localInfo: (group: string) => DescribeGroupReply;
  /** The registry is external (etcd), so no manager group exists. */
  readonly isExternal: boolean;
};

const requestTimeoutMs = 1_000;
const requestsMax = 3;

export function groupStatus(sources: GroupStatusSources, group: string): Promise<GroupStatus> {
  return new Promise((resolve) => {
    const own = sources.localInfo(group);
    const isExternal = sources.isExternal && group === sources.identity.dc;
    if (own.isMember || isExternal) return resolve(statusOf(group, own, isExternal));
    const describeGroup = groupInfoClient(sources.streams, group, requestTimeoutMs);
    const managers = sources
      .members()
      .filter(({ dc, roles, state }) => dc === group && roles.includes('manager') && isLiveState(state))
      .toSorted((a, b) => Number(b.id === own.leader) - Number(a.id === own.leader))
      .slice(0, requestsMax);
    const tryManager = (index: number): void => {
      const manager = managers[index];
      if (manager === undefined) return resolve(unknownGroup(group));
      const onReply: Done<DescribeGroupReply> = (outcome) => {
        if (outcome.ok && outcome.value.isMember) resolve(statusOf(group, outcome.value, false));
        else tryManager(index + 1);
      };
      describeGroup(manager, onReply);
    };
    tryManager(0);
  });
}

export function isLiveState(state: MemberRow['state']): boolean {
  return state !== 'dead' && state !== 'left';
}

export function unknownGroup(group: string): GroupStatus {
  return { group, leader: undefined, term: undefined, members: [], isExternal: false };
}

function statusOf(group: string, { leader, term, members }: DescribeGroupReply, isExternal: boolean): GroupStatus {
  return { group, leader, term, members, isExternal };
}
