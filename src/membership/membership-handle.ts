/** What the rest of a node sees of membership, in this thread or behind a channel, and what membership reports back. */
import type { Done } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Address, Identity, StoreWrite } from '../base/ports.ts';
import type { EmbeddedPart, EmbeddingRole } from '../messages/membership.ts';
import type { MemberView } from './state/member-view.ts';
import type { MembershipEvent } from './state/membership-event.ts';
import type { MembershipHints } from './state/hints.ts';

export type MembershipHandle = {
  start(memory: MembershipHints): void;
  /** Asks these nodes for their view as well, until they answer. */
  join(seeds: readonly Address[]): void;
  /** Ourselves first. */
  members(): readonly MemberView[];
  /** A question that came by stream, and its answer, as they are on the wire; FORBIDDEN if it cannot be read. */
  handleRequest(from: Identity, body: Uint8Array, reply: Done<Uint8Array>): void;
  /** What one of our roles wants known to everybody; empty takes it back. */
  embed(role: EmbeddingRole, state: Uint8Array): void;
  /** Numbers that only grow, by name; `rejected.<reason>` for what was refused. */
  counters(): Readonly<Record<string, number>>;
  /** Says goodbye; calls back when enough others know, in any case within a bound. */
  leave(reason: string, done: () => void): void;
  /** Nothing is said or reported any more. */
  stop(): void;
};

export type EmbeddedState = {
  readonly id: NodeId;
  readonly generation: number;
  readonly version: number;
  readonly parts: readonly EmbeddedPart[];
};

export type MembershipListener = {
  event(event: MembershipEvent): void;
  /** A seed has answered, or there is none to ask. Called once. */
  joined(): void;
  embedded(embedded: EmbeddedState): void;
  /** A beat is wanted now, where the main loop is another one than ours. */
  requestBeat?(): void;
  /** To be kept in the store; nothing waits for it. */
  saveHints(writes: readonly StoreWrite[]): void;
  /** Membership is over because of a mistake of ours. */
  onHalt(error: unknown): void;
};
