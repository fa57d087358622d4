/**
 * Which manager a registry request goes to: the leader, then this node, then others; only to itself while its group has
 * no leader.
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
