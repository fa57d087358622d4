/** The managers of the own datacenter in the view of membership. Keeps no state. */
import type { NodeId } from '../../base/ids.ts';
import type { Address, Identity, Peer } from '../../base/ports.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { KnownManager } from './group-autopilot.ts';

export type ManagerDirectory = {
  /** This node included if it is one. */
  all(): readonly KnownManager[];
  /** All managers but this node, dead ones included. */
  others(): readonly Peer[];
  /** The address of any member. */
  locate(id: NodeId): Address | undefined;
  nameOf(id: NodeId): string | undefined;
};

export function managerDirectory(members: () => readonly MemberView[], { id: self, dc }: Identity): ManagerDirectory {
  const managers = (): readonly MemberView[] =>
    members().filter(({ entry }) => entry.dc === dc && entry.roles.includes('manager'));
  const memberOf = (id: NodeId): MemberView | undefined => members().find(({ entry }) => entry.id === id);
  return {
    all: () => managers().map((view) => Object.assign(peerOf(view), { name: view.entry.name, isAlive: !isGone(view) })),
    others: () =>
      managers()
        .filter(({ entry }) => entry.id !== self)
        .map(peerOf),
    locate: (id) => {
      const entry = memberOf(id)?.entry;
      return entry === undefined ? undefined : { host: entry.host, port: entry.port };
    },
    nameOf: (id) => memberOf(id)?.entry.name,
  };
}

function peerOf({ entry: { id, host, port } }: MemberView): Peer {
  return { id, host, port };
}

function isGone({ state }: MemberView): boolean {
  return state === 'dead' || state === 'left';
}
