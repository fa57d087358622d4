/**
 * What this node states about itself: entry, incarnation, embedded state, leaving, stuck, coordinate. Only a refutation
 * raises the incarnation.
 *
 * The incarnation is remembered over a restart, but nobody waits for the disk: a new life has a higher generation,
 * which was durable before its first word, so lives differ whatever became of the incarnation. A full disk must not
 * keep a node from refuting its own death.
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
  /** Otherwise nobody can probe us: we ping a manager, which vouches for us, and never claim ourselves to be there. */
  readonly hasDatagrams: boolean;
  leaving = false;
  /** We have taken ourselves out for a while (restraint.ts). */
  withdrawn = false;
  stuck = false;
  lagMs = 0;
  coordinate: Coordinate = originCoordinate;
  #incarnation: number;
  /** Of this incarnation; undefined until somebody asks. */
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

  /** Goes above what was claimed. */
  raiseIncarnationAbove(incarnation: number): StoreWrite {
    this.#incarnation = Math.max(this.#incarnation, incarnation) + 1;
    this.#viewHash = undefined;
    return incarnationWrite(this.#incarnation);
  }

  /** What one of our roles wants known; empty takes it back. All parts together must fit into an ack. */
  setEmbedded(role: EmbeddingRole, state: Uint8Array): void {
    if (state.length === 0) this.#parts.delete(role);
    else this.#parts.set(role, state.slice());
    const bytes = this.#parts.values().reduce((sum, part) => sum + part.length, 0);
    assert(bytes <= embeddedBytesMax, 'embedded state is larger than an ack can carry');
    this.#stateVersion += 1;
  }

  /** Undefined as long as no role has ever wanted anything known. */
  get embedded(): { readonly version: number; readonly parts: readonly EmbeddedPart[] } | undefined {
    if (this.#stateVersion === 0) return undefined;
    return { version: this.#stateVersion, parts: [...this.#parts].map(([role, state]) => ({ role, state })) };
  }

  claim(kind: 'join' | 'alive' | 'dead' | 'left'): Claim {
    const { id, generation } = this.entry;
    return { kind, id, generation, incarnation: this.#incarnation, by: id, refused: false, entry: this.entry };
  }

  /** Our part of the hash of a view. */
  get viewHash(): number {
    const { id, generation } = this.entry;
    this.#viewHash ??= memberStatusHash(id, { generation, incarnation: this.#incarnation, state: 'alive' });
    return this.#viewHash;
  }

  /** An event about ourselves. */
  emitEvent(out: MembershipOutbox, type: MembershipEventType, why: string): void {
    const { id, name, generation } = this.entry;
    out.put({
      kind: 'event',
      event: { type, id, name, generation, incarnation: this.#incarnation, why, ...noEvidence },
    });
  }
}
