/**
 * Effects, timers and events of the consensus machine, and the outbox of one step. An `immediate` effect depends on no
 * write under way.
 */
import type { Outcome } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Persist, Schedule } from '../../base/runtime/loop.ts';
import type { StoreWrite } from '../../base/ports.ts';
import type { ConsensusMessage } from '../../messages/consensus.ts';
import type { LogEntry } from './log-entry.ts';

export type ConsensusMessageOf<Kind extends ConsensusMessage['kind']> = Extract<
  ConsensusMessage,
  { readonly kind: Kind }
>;

export type ConsensusTimer = { readonly kind: 'election' | 'tick' | 'apply'; readonly number: number };

/** Events for the event log of the node. Types are JSON values and stay. */
export const consensusEventTypes = [
  'leader.elected',
  'leader.lost',
  'group.changed',
  'snapshot.taken',
  'snapshot.installed',
  'leader.flapping',
] as const;

export type ConsensusEvent = {
  readonly type: (typeof consensusEventTypes)[number];
  readonly group: string;
  readonly term: number;
  /** The log index of the event, or the commit index. */
  readonly index: number;
  /** The current leader, or the one that was lost. */
  readonly leader: NodeId | undefined;
  /** Reason for people, in one sentence. */
  readonly why: string;
};

export type LeadershipChange =
  | { readonly kind: 'elected'; readonly fence: Fence }
  | { readonly kind: 'lost'; readonly reason: string }
  | { readonly kind: 'changed' };

export type ConsensusEffect =
  | { readonly kind: 'send'; readonly to: NodeId; readonly message: ConsensusMessage; readonly immediate?: boolean }
  /** Returns as the input `durable` when all writes before it are durable. */
  | { readonly kind: 'durable' }
  | { readonly kind: 'apply'; readonly entries: readonly LogEntry[]; readonly immediate: true }
  /** Capture the state after the last applied entry; its first part returns as `snapshotPart`. */
  | { readonly kind: 'captureSnapshot'; readonly number: number; readonly index: number; readonly immediate: true }
  /** Produce the next part. */
  | { readonly kind: 'captureNextPart'; readonly immediate: true }
  /** The capture is cancelled. */
  | { readonly kind: 'dropCapture'; readonly immediate: true }
  /** A part of a snapshot for the state machine. */
  | { readonly kind: 'restorePart'; readonly part: Uint8Array; readonly immediate: true }
  /** All parts are restored: the snapshot replaces the state now. */
  | { readonly kind: 'finishRestore'; readonly index: number; readonly immediate: true }
  /** The restore is cancelled. */
  | { readonly kind: 'dropRestore'; readonly immediate: true }
  | { readonly kind: 'callEnded'; readonly call: number; readonly outcome: Outcome<void>; readonly immediate?: boolean }
  | { readonly kind: 'event'; readonly event: ConsensusEvent; readonly immediate: true }
  | { readonly kind: 'leadership'; readonly change: LeadershipChange; readonly immediate: true };

export type ConsensusStepEffect = ConsensusEffect | Persist | Schedule<ConsensusTimer>;

export class ConsensusOutbox {
  nowMs = 0;
  #effects: ConsensusStepEffect[] = [];

  put(effect: ConsensusEffect): void {
    this.#effects.push(effect);
  }

  send(to: NodeId, message: ConsensusMessage): void {
    this.#effects.push({ kind: 'send', to, message });
  }

  sendImmediately(to: NodeId, message: ConsensusMessage): void {
    this.#effects.push({ kind: 'send', to, message, immediate: true });
  }

  persist(writes: readonly StoreWrite[]): void {
    this.#effects.push({ kind: 'persist', writes }, { kind: 'durable' });
  }

  schedule(atMs: number, timer: ConsensusTimer): void {
    this.#effects.push({ kind: 'schedule', atMs, timer });
  }

  take(): readonly ConsensusStepEffect[] {
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }
}
