/**
 * Whom a node asks about what is agreed. While a manager of the group knows of no leader, or leads and has lost
 * the others, that is itself only, who refuses for sure: any other might lead and be out of reach, and what is lost on
 * the way there has no certain end. It hears of a leader as soon as there is one, and asks on. Nodes outside of the
 * group ask the managers that they know.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Peer } from '../../base/ports.ts';
import type { SendToManager } from '../../registry/client/leader-request.ts';
import type { KnownManager } from '../group/group-autopilot.ts';

export function preferSelfWhenLeaderless(ask: SendToManager, self: Peer, isLeaderless: () => boolean): SendToManager {
  return (to, body, timeoutMs, done, write) => ask(isLeaderless() ? self : to, body, timeoutMs, done, write);
}

/** The leader first, then ourselves, then the others; the dead are not asked. */
export function managersByPreference(
  managers: readonly KnownManager[],
  leader: NodeId | undefined,
  self: NodeId | undefined,
): readonly Peer[] {
  const rank = (id: NodeId): number => (id === leader ? 0 : id === self ? 1 : 2);
  return managers.filter(({ isAlive }) => isAlive).toSorted((a, b) => rank(a.id) - rank(b.id));
}
