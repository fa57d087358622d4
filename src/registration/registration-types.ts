/** Inputs, effects, timers and events of the registration machine, and its outbox. Decides nothing. */
import type { Outcome, RemusterError } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Schedule } from '../base/runtime/loop.ts';
import type { LeaseId, RegistryChange, RegistryTransaction, TransactionResult, WatchStart } from '../base/registry.ts';
import type { NodeMode, StateReason } from './node-modes.ts';
import type { ClusterSnapshot } from './cluster-snapshot.ts';

/** Each call carries a number; the reply to a call that is no longer waited for is ignored. */
type Call = { readonly call: number };

export type RegistrationTimer =
  /** Read the snapshot again. */
  | ({ readonly kind: 'retry' } & Call)
  | { readonly kind: 'renew'; readonly lease: LeaseId }
  /** The lease may no longer hold for certain, or has expired. */
  | { readonly kind: 'lease' }
  | ({ readonly kind: 'reconcile' } & Call)
  | { readonly kind: 'maintenance' };

export type RegistrationInput =
  | { readonly kind: 'start' }
  | ({ readonly kind: 'snapshotRead'; readonly outcome: Outcome<ClusterSnapshot> } & Call)
  | ({ readonly kind: 'granted'; readonly outcome: Outcome<{ lease: LeaseId; ttlMs: number }> } & Call)
  | ({ readonly kind: 'written'; readonly outcome: Outcome<TransactionResult> } & Call)
  | ({ readonly kind: 'renewed'; readonly outcome: Outcome<{ ttlMs: number }> } & Call)
  | ({ readonly kind: 'reconciled'; readonly outcome: Outcome<void> } & Call)
  | { readonly kind: 'changed'; readonly watch: number; readonly changes: readonly RegistryChange[] }
  | { readonly kind: 'compacted'; readonly watch: number }
  /** This node has learned of a leader with this term. */
  | { readonly kind: 'term'; readonly term: number }
  | { readonly kind: 'leave' };

export type RegistrationEvent =
  | { readonly type: 'node.registered'; readonly node: NodeId; readonly generation: number; readonly epoch: number }
  | { readonly type: 'node.state'; readonly node: NodeId; readonly mode: NodeMode; readonly reason: StateReason }
  /** The registration has expired by the clock of this node or by the registry. */
  | { readonly type: 'registration.lost'; readonly node: NodeId; readonly silentMs: number }
  /** The registration exists after all, without a gap. */
  | { readonly type: 'registration.resumed'; readonly node: NodeId }
  /** The node cannot register now; it retries. */
  | { readonly type: 'registration.blocked'; readonly node: NodeId; readonly text: string }
  /** The reconcile failed; it is retried. */
  | { readonly type: 'reconcile.failed'; readonly node: NodeId; readonly text: string };

export type RegistrationEffect =
  | ({ readonly kind: 'readSnapshot' } & Call)
  | ({ readonly kind: 'grant' } & Call)
  | ({ readonly kind: 'write'; readonly transaction: RegistryTransaction } & Call)
  | ({ readonly kind: 'renew'; readonly lease: LeaseId } & Call)
  | { readonly kind: 'revoke'; readonly lease: LeaseId }
  /** Compare what this node holds with the registry, before it becomes active. */
  | ({ readonly kind: 'reconcile' } & Call)
  /** Watch the own state and registration; replaces earlier watches. */
  | { readonly kind: 'watch'; readonly watch: number; readonly start: WatchStart }
  | { readonly kind: 'unwatch' }
  | { readonly kind: 'event'; readonly event: RegistrationEvent }
  | { readonly kind: 'left'; readonly outcome: Outcome<void> }
  /** Another process of this node is registered: this one must end. */
  | { readonly kind: 'fenced'; readonly error: RemusterError };

/** Collects the effects of a step in order. The parts of the machine share it. */
export class RegistrationOutbox {
  nowMs = 0;
  #effects: (RegistrationEffect | Schedule<RegistrationTimer>)[] = [];
  #calls = 0;

  push(effect: RegistrationEffect): void {
    this.#effects.push(effect);
  }

  emit(event: RegistrationEvent): void {
    this.push({ kind: 'event', event });
  }

  write(transaction: RegistryTransaction): number {
    const call = this.newCall();
    this.push({ kind: 'write', call, transaction });
    return call;
  }

  scheduleIn(delayMs: number, timer: RegistrationTimer): void {
    this.#effects.push({ kind: 'schedule', atMs: this.nowMs + delayMs, timer });
  }

  newCall(): number {
    this.#calls += 1;
    return this.#calls;
  }

  takeAll(): readonly (RegistrationEffect | Schedule<RegistrationTimer>)[] {
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }
}
