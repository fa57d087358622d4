/**
 * What this node states about itself: entry, incarnation, embedded state, leaving, stuck, coordinate. The incarnation
 * never decreases within one generation. It is saved without waiting for the disk: a restart has a higher generation,
 * which is durable before the first message, and a full disk must not keep a node from refuting its own death.
 */
import { assert } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { StoreWrite } from '../../base/ports.ts';
import { type EmbeddedPart, type EmbeddingRole, embeddedBytesMax } from '../../messages/membership.ts';
import type { NodeEntry } from '../../messages/node-entry.ts';
import type { Claim } from './claim.ts';
import { type Coordinate, originCoordinate } from './coordinates.ts';
import type { MembershipOutbox } from './context.ts';
import { memberStatusHash } from './member-table.ts';
import { type MembershipEventType, noEvidence } from './membership-event.ts';
import { incarnationWrite } from './hints.ts';

export class LocalMember {
  readonly entry: NodeEntry;
  /** A node without datagrams cannot be probed: it pings a manager, which makes the alive claims for it. */
  readonly hasDatagrams: boolean;
  leaving = false;
  /** This node has withdrawn itself for a while (flap-damping.ts). */
  withdrawn = false;
  stuck = false;
  lagMs = 0;
  coordinate: Coordinate = originCoordinate;
  #incarnation: number;
  /** Hash of this incarnation; undefined until it is needed. */
  #viewHash: number | undefined;
  #stateVersion = 0;
  readonly #parts = new Map<EmbeddingRole, Uint8Array>();

  constructor(entry: NodeEntry, incarnation: number, hasDatagrams = true) {
    this.entry = entry;
    this.hasDatagrams = hasDatagrams;
    this.#incarnation = incarnation;
  }

  get id(): NodeId {
    return this.entry.id;
  }

  get incarnation(): number {
    return this.#incarnation;
  }

  raiseIncarnationAbove(incarnation: number): StoreWrite {
    this.#incarnation = Math.max(this.#incarnation, incarnation) + 1;
    this.#viewHash = undefined;
    return incarnationWrite(this.#incarnation);
  }

  /** Publishes the state of one role; empty state withdraws it. All parts together must fit into an ack. */
  setEmbedded(role: EmbeddingRole, state: Uint8Array): void {
    if (state.length === 0) this.#parts.delete(role);
    else this.#parts.set(role, state.slice());
    const bytes = this.#parts.values().reduce((sum, part) => sum + part.length, 0);
    assert(bytes <= embeddedBytesMax, 'embedded state is larger than an ack can carry');
    this.#stateVersion += 1;
  }

  /** Undefined until a role publishes state for the first time. */
  get embedded(): { readonly version: number; readonly parts: readonly EmbeddedPart[] } | undefined {
    if (this.#stateVersion === 0) return undefined;
    return { version: this.#stateVersion, parts: [...this.#parts].map(([role, state]) => ({ role, state })) };
  }

  claim(kind: 'join' | 'alive' | 'dead' | 'left'): Claim {
    const { id, generation } = this.entry;
    return { kind, id, generation, incarnation: this.#incarnation, by: id, refused: false, entry: this.entry };
  }

  /** The part of this node in the view hash. */
  get viewHash(): number {
    const { id, generation } = this.entry;
    this.#viewHash ??= memberStatusHash(id, { generation, incarnation: this.#incarnation, state: 'alive' });
    return this.#viewHash;
  }

  /** Emits an event about this node. */
  emitEvent(outbox: MembershipOutbox, type: MembershipEventType, why: string): void {
    const { id, name, generation } = this.entry;
    outbox.push({
      kind: 'event',
      event: { type, id, name, generation, incarnation: this.#incarnation, why, ...noEvidence },
    });
  }
}
