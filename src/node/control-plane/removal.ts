/** Whether a manager can be removed from its group without loss of quorum. The leader checks before any write. Pure. */
import type { NodeId } from '../../base/ids.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';

/**
 * Why the manager cannot be removed; undefined if it can. A majority of the remaining voters must be alive and caught
 * up with the log.
 */
export function removalBlocker(
  members: readonly GroupMember[],
  id: NodeId,
  isCaughtUp: (id: NodeId) => boolean,
): string | undefined {
  const member = members.find((one) => one.id === id);
  if (member === undefined) return 'the node does not belong to the manager group';
  if (member.standing === 'syncing') return undefined;
  const remaining = members.filter((one) => one.standing === 'voter' && one.id !== id);
  if (remaining.length === 0) return `${member.name} is the last voter: without it the group cannot decide anything`;
  const caughtUp = remaining.filter((one) => isCaughtUp(one.id)).length;
  const needed = Math.floor(remaining.length / 2) + 1;
  if (caughtUp >= needed) return undefined;
  const lagging = remaining.filter((one) => !isCaughtUp(one.id)).map(({ name }) => name);
  return (
    `without ${member.name} the group has ${remaining.length} voters and needs ${needed} of them, but only ` +
    `${caughtUp} can vote (${lagging.join(', ')} cannot): it would lose its quorum`
  );
}
