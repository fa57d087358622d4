/**
 * Established connections by peer. Keeps one per pair: of two crossing dials, that of the smaller node id. Auxiliary
 * connections are not counted.
 */
import type { NodeId } from '../../../base/ids.ts';
import type { SealedConnection } from './sealed-connection.ts';
import { RejectedError } from '../shared/rejections.ts';

export class PeerConnections {
  readonly #selfId: NodeId;
  readonly #byId = new Map<NodeId, SealedConnection[]>();
  readonly #aside = new Map<NodeId, SealedConnection[]>();

  constructor(selfId: NodeId) {
    this.#selfId = selfId;
  }

  *[Symbol.iterator](): Generator<SealedConnection> {
    for (const connections of this.#byId.values()) yield* connections;
    for (const connections of this.#aside.values()) yield* connections;
  }

  /** The one to use for new things. */
  usable(id: NodeId): SealedConnection | undefined {
    const usable = (this.#byId.get(id) ?? []).filter((c) => c.open && !c.retired && !c.peerLeft);
    return usable.find((c) => this.#preferred(c)) ?? usable.at(-1);
  }

  has(id: NodeId): boolean {
    return this.#byId.has(id);
  }

  /** Takes in a new connection; says which others are to be retired or closed because of it. Throws Refused. */
  add(connection: SealedConnection): { retire: SealedConnection[]; close: SealedConnection[] } {
    const { id, generation } = connection.mux.peer;
    const all = [...(this.#byId.get(id) ?? []), ...(this.#aside.get(id) ?? [])];
    if (all.some((other) => other.mux.peer.generation > generation)) throw new RejectedError('staleGeneration');
    const close = all.filter((other) => other.mux.peer.generation < generation);
    const kin = this.#kin(connection);
    const others = kin.get(id) ?? [];
    const same = others.filter((other) => other.mux.peer.generation === generation);
    kin.set(id, [...others, connection]);
    const keep = this.#best([...same, connection]);
    return { retire: [...same, connection].filter((c) => c !== keep), close };
  }

  remove(connection: SealedConnection): void {
    const id = connection.peer?.id;
    const kin = this.#kin(connection);
    const connections = id === undefined ? undefined : kin.get(id);
    if (id === undefined || !connections?.includes(connection)) return;
    const rest = connections.filter((other) => other !== connection);
    if (rest.length > 0) kin.set(id, rest);
    else kin.delete(id);
  }

  #kin(connection: SealedConnection): Map<NodeId, SealedConnection[]> {
    return connection.aside ? this.#aside : this.#byId;
  }

  /** Among those dialed by the same side the newest is right: the older ones are what a restart left behind. */
  #best(connections: SealedConnection[]): SealedConnection | undefined {
    return connections.findLast((c) => this.#preferred(c) && c.open) ?? connections.at(-1);
  }

  #preferred(connection: SealedConnection): boolean {
    const peerId = connection.mux.peer.id;
    return connection.side === 'client' ? this.#selfId < peerId : peerId < this.#selfId;
  }
}
