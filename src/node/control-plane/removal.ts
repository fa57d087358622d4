/** Whether a manager can be taken out of its group without harm. Pure; the leader asks before it changes anything. */
import type { NodeId } from '../../base/ids.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';

/**
 * Why not; undefined when it can. Those who stay must be able to decide without it: of the voters that are left, a
 * majority has to live and to follow the log.
 */
export function removalBlocker(
  members: readonly GroupMember[],
  id: NodeId,
  follows: (id: NodeId) => boolean,
): string | undefined {
  const member = members.find((one) => one.id === id);
  if (member === undefined) return 'it does not belong to the group of managers';
  if (member.standing === 'syncing') return undefined;
  const left = members.filter((one) => one.standing === 'voter' && one.id !== id);
  if (left.length === 0) return `${member.name} is the last voter: without it nothing can be decided`;
  const following = left.filter((one) => follows(one.id)).length;
  const needed = Math.floor(left.length / 2) + 1;
  if (following >= needed) return undefined;
  const absent = left.filter((one) => !follows(one.id)).map(({ name }) => name);
  return (
    `without ${member.name} there would be ${left.length} voters, of which ${needed} are needed and ${following} ` +
    `can be relied on (${absent.join(', ')} cannot): the quorum would be lost`
  );
}
