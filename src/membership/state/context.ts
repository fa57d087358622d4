/**
 * State shared by the parts of the membership machine during one step, and its effects, timers and outbox. Reads no
 * clock and performs nothing.
 */
import type { ErrorCode } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Schedule, CancelTimer } from '../../base/runtime/loop.ts';
import type { Address, Peer, StoreWrite } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { EmbeddedPart, MembershipMessage } from '../../messages/membership.ts';
import type { GossipQueue } from './gossip-queue.ts';
import type { LocalHealth } from './local-health.ts';
import type { MemberTableLike } from './member-table.ts';
import type { MembershipEvent } from './membership-event.ts';
import type { MembershipOptions } from './options.ts';
import type { LocalMember } from './local-member.ts';
import type { MembershipCounters } from './membership-counters.ts';

export type MembershipMessageOf<Kind extends MembershipMessage['kind']> = Extract<
  MembershipMessage,
  { readonly kind: Kind }
>;

/** Each carries when it was due: a late one shows that this node did not run. */
export type MembershipTimer = { readonly dueMs: number } & (
  | {
      readonly kind: 'probe' | 'gossip' | 'sync' | 'revive' | 'observe' | 'reap' | 'mainLoop' | 'leaving' | 'saveHints';
    }
  | { readonly kind: 'pushServer' | 'pushClient' | 'endWithdrawal' | 'joinBatch' }
  | { readonly kind: 'recheckView'; readonly id: NodeId; readonly attempt: number }
  | { readonly kind: 'direct' | 'indirect' | 'relay' | 'relayEnd'; readonly seq: number }
  | { readonly kind: 'suspicion'; readonly id: NodeId; readonly generation: number; readonly incarnation: number }
  | { readonly kind: 'join'; readonly seed: Address; readonly attempt: number }
);

type DistributedOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/** Why this node sent a request; it comes back with the response. The kinds are part of the metric names. */
export type RequestPurpose =
  | { readonly kind: 'probe' | 'relay'; readonly seq: number }
  | { readonly kind: 'watch' | 'sync' | 'departure'; readonly id: NodeId }
  | { readonly kind: 'push'; readonly id: NodeId; readonly seq: number }
  | { readonly kind: 'look'; readonly id: NodeId; readonly attempt: number }
  | { readonly kind: 'join'; readonly seed: Address; readonly attempt: number }
  | { readonly kind: 'greet'; readonly address: Address };

export type MembershipEffect =
  | { readonly kind: 'datagram'; readonly to: Peer; readonly message: MembershipMessage }
  | {
      readonly kind: 'request';
      readonly to: Address;
      readonly message: MembershipMessage;
      readonly timeoutMs: number;
      readonly purpose: RequestPurpose;
    }
  /** Ends a request by stream. */
  | { readonly kind: 'reply'; readonly call: number; readonly message: MembershipMessage }
  /** Ends a request by stream with an error. */
  | { readonly kind: 'replyError'; readonly call: number; readonly code: ErrorCode }
  | { readonly kind: 'event'; readonly event: MembershipEvent }
  | {
      readonly kind: 'embedded';
      readonly id: NodeId;
      readonly generation: number;
      readonly version: number;
      readonly parts: readonly EmbeddedPart[];
    }
  /** Writes that are useful after a restart. The machine does not wait for them. */
  | { readonly kind: 'saveHints'; readonly writes: readonly StoreWrite[] }
  | { readonly kind: 'joined' }
  /** Requests a beat of the main loop: heartbeats that it has already received arrive before the beat. */
  | { readonly kind: 'requestBeat' }
  /** The leave is announced: the sockets may close. */
  | { readonly kind: 'left' };

export class MembershipOutbox {
  nowMs = 0;
  #effects: (MembershipEffect | Schedule<MembershipTimer> | CancelTimer)[] = [];

  push(effect: MembershipEffect): void {
    this.#effects.push(effect);
  }

  schedule(delayMs: number, timer: DistributedOmit<MembershipTimer, 'dueMs'>, key?: string): void {
    const dueMs = this.nowMs + delayMs;
    const schedule = { kind: 'schedule', atMs: dueMs, timer: { ...timer, dueMs } as MembershipTimer } as const;
    this.#effects.push(key === undefined ? schedule : { ...schedule, key });
  }

  cancel(key: string): void {
    this.#effects.push({ kind: 'cancelTimer', key });
  }

  takeAll(): readonly (MembershipEffect | Schedule<MembershipTimer> | CancelTimer)[] {
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }
}

export type MembershipContext = {
  readonly options: MembershipOptions;
  readonly random: Random;
  readonly self: LocalMember;
  readonly table: MemberTableLike;
  readonly gossip: GossipQueue;
  readonly health: LocalHealth;
  readonly counters: MembershipCounters;
  readonly outbox: MembershipOutbox;
};
