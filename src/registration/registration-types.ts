/**
 * Inputs, effects, timers and events of the registration machine, and the list in which it collects effects. Types and
 * one collector, no decisions.
 */
import type { Outcome, RemusterError } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Schedule } from '../base/runtime/loop.ts';
import type { LeaseId, RegistryChange, RegistryTransaction, TransactionResult } from '../base/registry.ts';
import type { NodeMode, StateReason } from './node-modes.ts';
import type { ClusterSnapshot } from './cluster-snapshot.ts';

/** Each call carries a number; an answer to a call that is no longer waited for is passed over. */
type Call = { readonly call: number };

export type RegistrationTimer =
  /** Look again. */
  | ({ readonly kind: 'retry' } & Call)
  | { readonly kind: 'renew'; readonly lease: LeaseId }
  /** The lease may have stopped to hold surely, or at all. */
  | { readonly kind: 'lease' }
  | ({ readonly kind: 'reconcile' } & Call)
  | { readonly kind: 'upkeep' };

export type RegistrationInput =
  | { readonly kind: 'start' }
  | ({ readonly kind: 'looked'; readonly outcome: Outcome<ClusterSnapshot> } & Call)
  | ({ readonly kind: 'granted'; readonly outcome: Outcome<{ lease: LeaseId; ttlMs: number }> } & Call)
  | ({ readonly kind: 'written'; readonly outcome: Outcome<TransactionResult> } & Call)
  | ({ readonly kind: 'renewed'; readonly outcome: Outcome<{ ttlMs: number }> } & Call)
  | ({ readonly kind: 'reconciled'; readonly outcome: Outcome<void> } & Call)
  | { readonly kind: 'changed'; readonly watch: number; readonly changes: readonly RegistryChange[] }
  | { readonly kind: 'compacted'; readonly watch: number }
  /** This node has heard of a leader. */
  | { readonly kind: 'term'; readonly term: number }
  | { readonly kind: 'leave' };

export type RegistrationEvent =
  | { readonly type: 'node.registered'; readonly node: NodeId; readonly generation: number; readonly epoch: number }
  | { readonly type: 'node.state'; readonly node: NodeId; readonly mode: NodeMode; readonly reason: StateReason }
  /** This node's registration ran out by its own clock, or the registry says that it did. */
  | { readonly type: 'registration.lost'; readonly node: NodeId; readonly silentMs: number }
  /** It was there all the time. */
  | { readonly type: 'registration.resumed'; readonly node: NodeId }
  /** Something stands in the way of registering; it is tried again. */
  | { readonly type: 'registration.blocked'; readonly node: NodeId; readonly text: string }
  /** What this node holds could not be confirmed; it is tried again. */
  | { readonly type: 'reconcile.failed'; readonly node: NodeId; readonly text: string };

export type RegistrationEffect =
  | ({ readonly kind: 'look' } & Call)
  | ({ readonly kind: 'grant' } & Call)
  | ({ readonly kind: 'write'; readonly transaction: RegistryTransaction } & Call)
  | ({ readonly kind: 'renew'; readonly lease: LeaseId } & Call)
  | { readonly kind: 'revoke'; readonly lease: LeaseId }
  /** Let this node learn again what it holds, before it is active. */
  | ({ readonly kind: 'reconcile' } & Call)
  /** Own state and registration; what was watched before is over. */
  | { readonly kind: 'watch'; readonly watch: number; readonly fromRevision: number }
  | { readonly kind: 'unwatch' }
  | { readonly kind: 'event'; readonly event: RegistrationEvent }
  | { readonly kind: 'left'; readonly outcome: Outcome<void> }
  /** Another life of this node is registered: this one must end. */
  | { readonly kind: 'fenced'; readonly error: RemusterError };

/** What a step decides, in order. The parts of the machine share it. */
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
