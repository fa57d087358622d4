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
  readonly #auxiliary = new Map<NodeId, SealedConnection[]>();

  constructor(selfId: NodeId) {
    this.#selfId = selfId;
  }

  *[Symbol.iterator](): Generator<SealedConnection> {
    for (const connections of this.#byId.values()) yield* connections;
    for (const connections of this.#auxiliary.values()) yield* connections;
  }

  /** The connection for new requests, notifications and streams. */
  usable(id: NodeId): SealedConnection | undefined {
    const usable = (this.#byId.get(id) ?? []).filter((c) => c.open && !c.retired && !c.peerLeft);
    return usable.find((c) => this.#isPreferred(c)) ?? usable.at(-1);
  }

  has(id: NodeId): boolean {
    return this.#byId.has(id);
  }

  /**
   * Returns the connections that the new one replaces: same generation to retire, older to close. Throws RejectedError.
   */
  add(connection: SealedConnection): { retire: SealedConnection[]; close: SealedConnection[] } {
    const { id, generation } = connection.mux.peer;
    const all = [...(this.#byId.get(id) ?? []), ...(this.#auxiliary.get(id) ?? [])];
    if (all.some((other) => other.mux.peer.generation > generation)) throw new RejectedError('staleGeneration');
    const close = all.filter((other) => other.mux.peer.generation < generation);
    const table = this.#tableOf(connection);
    const others = table.get(id) ?? [];
    const same = others.filter((other) => other.mux.peer.generation === generation);
    table.set(id, [...others, connection]);
    const keep = this.#best([...same, connection]);
    return { retire: [...same, connection].filter((c) => c !== keep), close };
  }

  remove(connection: SealedConnection): void {
    const id = connection.peer?.id;
    const table = this.#tableOf(connection);
    const connections = id === undefined ? undefined : table.get(id);
    if (id === undefined || !connections?.includes(connection)) return;
    const rest = connections.filter((other) => other !== connection);
    if (rest.length > 0) table.set(id, rest);
    else table.delete(id);
  }

  #tableOf(connection: SealedConnection): Map<NodeId, SealedConnection[]> {
    return connection.auxiliary ? this.#auxiliary : this.#byId;
  }

  /** The newest preferred connection: an older one of the same side may be half-open. */
  #best(connections: SealedConnection[]): SealedConnection | undefined {
    return connections.findLast((c) => this.#isPreferred(c) && c.open) ?? connections.at(-1);
  }

  /** The smaller node id dialed it. */
  #isPreferred(connection: SealedConnection): boolean {
    const peerId = connection.mux.peer.id;
    return connection.side === 'client' ? this.#selfId < peerId : peerId < this.#selfId;
  }
}
