/**
 * Selects the manager for a registry request: the leader, then this node, then others. A member of a group without a
 * leader sends it only to itself.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Peer } from '../../base/ports.ts';
import type { SendToManager } from '../../registry/client/leader-request.ts';
import type { KnownManager } from '../group/group-autopilot.ts';

export function preferSelfWhenLeaderless(send: SendToManager, self: Peer, isLeaderless: () => boolean): SendToManager {
  return (to, body, timeoutMs, done, write) => send(isLeaderless() ? self : to, body, timeoutMs, done, write);
}

/** The leader first, then this node, then the others; dead managers are left out. */
export function managersByPreference(
  managers: readonly KnownManager[],
  leader: NodeId | undefined,
  self: NodeId | undefined,
): readonly Peer[] {
  const rank = (id: NodeId): number => (id === leader ? 0 : id === self ? 1 : 2);
  return managers.filter(({ isAlive }) => isAlive).toSorted((a, b) => rank(a.id) - rank(b.id));
}
