/** Leader, term and members of a datacenter's group: from this node, or by asking managers there until one answers. */
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
};

export type GroupStatusSources = {
  readonly streams: Pick<Streams, 'request'>;
  readonly identity: Identity;
  readonly members: () => readonly MemberRow[];
  /** What this node itself would answer. */
  readonly tell: (group: string) => DescribeGroupReply;
  /** The registry is somebody else's, and with it the votes: there is nobody to ask about them. */
  readonly isExternal: boolean;
};

const askTimeoutMs = 1_000;
const asksMax = 3;

export function groupStatus(parts: GroupStatusSources, group: string): Promise<GroupStatus> {
  return new Promise((resolve) => {
    const own = parts.tell(group);
    if (own.isMember || (parts.isExternal && group === parts.identity.dc)) return resolve(statusOf(group, own));
    const ask = groupInfoClient(parts.streams, group, askTimeoutMs);
    const managers = parts
      .members()
      .filter(({ dc, roles, state }) => dc === group && roles.includes('manager') && isLiveState(state))
      .toSorted((a, b) => Number(b.id === own.leader) - Number(a.id === own.leader))
      .slice(0, asksMax);
    const next = (at: number): void => {
      const manager = managers[at];
      if (manager === undefined) return resolve({ group, leader: undefined, term: undefined, members: [] });
      const answered: Done<DescribeGroupReply> = (outcome) => {
        if (outcome.ok && outcome.value.isMember) resolve(statusOf(group, outcome.value));
        else next(at + 1);
      };
      ask(manager, answered);
    };
    next(0);
  });
}

export function isLiveState(state: MemberRow['state']): boolean {
  return state !== 'dead' && state !== 'left';
}

function statusOf(group: string, { leader, term, members }: DescribeGroupReply): GroupStatus {
  return { group, leader, term, members };
}
