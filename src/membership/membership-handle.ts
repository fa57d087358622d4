/**
 * What a node uses of membership, in this thread or behind a channel (`MembershipHandle`), and what membership reports
 * back (`MembershipListener`). Types only.
 */
import type { Done } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Address, Identity, StoreWrite } from '../base/ports.ts';
import type { EmbeddedPart, EmbeddingRole } from '../messages/membership.ts';
import type { MemberView } from './state/member-view.ts';
import type { MembershipEvent } from './state/membership-event.ts';
import type { MembershipHints } from './state/hints.ts';

export type MembershipHandle = {
  start(hints: MembershipHints): void;
  /** Requests the view of these seeds too, until they reply. */
  join(seeds: readonly Address[]): void;
  /** This node first. */
  members(): readonly MemberView[];
  /** A request by stream and its reply, both encoded. The reply is FORBIDDEN if the request cannot be decoded. */
  handleRequest(from: Identity, body: Uint8Array, reply: Done<Uint8Array>): void;
  /** Publishes the embedded state of one role of this node; empty state withdraws it. */
  embed(role: EmbeddingRole, state: Uint8Array): void;
  /** Monotonic counters by name; `rejected.<reason>` counts refused messages. */
  counters(): Readonly<Record<string, number>>;
  /** Announces the leave; calls back when the neighbours have acknowledged it, at the latest after `leaveTimeoutMs`. */
  leave(reason: string, done: () => void): void;
  /** Sends and reports nothing from here on; fails the requests that still wait for a reply. */
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
  /** A seed has replied, or there is none. Called once. */
  joined(): void;
  embedded(embedded: EmbeddedState): void;
  /** Membership needs a beat of the main loop now. Only where membership runs on a loop of its own. */
  requestBeat?(): void;
  /** Writes for the store. Membership does not wait for them. */
  saveHints(writes: readonly StoreWrite[]): void;
  /** The machine threw: membership has ended, and the node must halt. */
  onHalt(error: unknown): void;
};
