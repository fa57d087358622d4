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
import type { ConsensusEvent } from './consensus-event.ts';
import type { LogEntry } from './log-entry.ts';

export type ConsensusTimer = { readonly kind: 'election' | 'tick' | 'apply'; readonly number: number };

export type LeadershipChange =
  | { readonly kind: 'became'; readonly fence: Fence }
  | { readonly kind: 'lost'; readonly reason: string }
  | { readonly kind: 'changed' };

export type ConsensusEffect =
  | { readonly kind: 'send'; readonly to: NodeId; readonly message: ConsensusMessage; readonly immediate?: boolean }
  /** Comes back as an input when all writes before it are durable. */
  | { readonly kind: 'durable' }
  | { readonly kind: 'apply'; readonly entries: readonly LogEntry[]; readonly immediate: true }
  /** The state after the last applied entry is to be fixed, and its first part comes back as `snapshotPart`, */
  | { readonly kind: 'takeSnapshot'; readonly number: number; readonly index: number; readonly immediate: true }
  /** then, for each time it is asked for, the next one, */
  | { readonly kind: 'nextPart'; readonly immediate: true }
  /** until the last one, or until nobody wants it any more. */
  | { readonly kind: 'dropSnapshot'; readonly immediate: true }
  /** A part of a state that is to take the place of this one, */
  | { readonly kind: 'restorePart'; readonly part: Uint8Array; readonly immediate: true }
  /** and the end of it: now it does, or it never will. */
  | { readonly kind: 'restore'; readonly index: number; readonly immediate: true }
  | { readonly kind: 'dropRestore'; readonly immediate: true }
  | { readonly kind: 'ended'; readonly call: number; readonly outcome: Outcome<void>; readonly immediate?: boolean }
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
