/**
 * Registration of one node as a machine: read, register, reconcile, activate, renew. Any doubt leads back to `reading`:
 * the registry decides, never the memory of this node. Renewal runs beside all phases until the end. Knows no
 * container: serving needs a serving lease besides.
 *
 *   reading --> granting --> registering --> reading --> reconciling --> activating --> registered, watching
 *      ^        (a lease)                                                                  |
 *      |                                                                                   v
 *      +------------- a renewal succeeds, or the lease has expired ------------------ suspended
 */
import { unreachable } from '../base/assert.ts';
import { type Outcome, RemusterError, failure, success } from '../base/errors.ts';
import type { TimerExpired, Machine, PersistFailed, Schedule } from '../base/runtime/loop.ts';
import type { Identity } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import type { LeaseId, RegistryChange, TransactionResult } from '../base/registry.ts';
import {
  RegistrationOutbox,
  type RegistrationEffect,
  type RegistrationInput,
  type RegistrationTimer,
} from './registration-types.ts';
import { canServeIn } from './node-modes.ts';
import type { RegistrationOptions } from './registration-options.ts';
import { type ClusterSnapshot, ownKeyChanges } from './cluster-snapshot.ts';
import type { NodeStateRecord } from './registration-records.ts';
import { LeaseRenewal, registrationBackoffMs } from './lease-renewal.ts';
import { type OwnStateRecord, RegistrationMaintenance } from './registration-maintenance.ts';
import { type RegistrationEntry, type RegistrationDecision, decideRegistration } from './registration-decision.ts';
import { registerTransaction, deregisterTransaction, becomeActiveTransaction } from './registration-transactions.ts';

type Phase =
  | { readonly kind: 'idle' | 'registered' | 'suspended' | 'ended' }
  | { readonly kind: 'reading' | 'registering' | 'leaving'; readonly call: number }
  | { readonly kind: 'granting'; readonly call: number; readonly entry: RegistrationEntry; readonly sentMs: number }
  | { readonly kind: 'reconciling' | 'activating'; readonly call: number; readonly snapshot: ClusterSnapshot };

type Input = RegistrationInput | TimerExpired<RegistrationTimer> | PersistFailed;
type Effect = RegistrationEffect | Schedule<RegistrationTimer>;

const conflictsInARowMax = 3;

export class Registration implements Machine<Input, Effect> {
  readonly #identity: Identity;
  readonly #options: RegistrationOptions;
  readonly #random: Random;
  readonly #outbox = new RegistrationOutbox();
  readonly #renewal: LeaseRenewal;
  readonly #maintenance: RegistrationMaintenance;
  #phase: Phase = { kind: 'idle' };
  #failures = 0;
  #conflicts = 0;
  #wasRegistered = false;
  /** `modRevision` of the own registration when it was last read; 0 before. */
  #registrationRevision = 0;
  #state: OwnStateRecord | undefined;
  #drainedMs = 0;
  /** The lease of an earlier process, to be revoked once this one holds the registration. */
  #supersededLease: LeaseId | undefined;
  /** Reconciled, and no change can have been missed since. */
  #ready = false;
  #newTerm: { readonly term: number; readonly sinceMs: number } | undefined;
  #watch = 0;
  /** Wall time minus monotonic time, for timestamps only. */
  #wallOffsetMs = 0;
  #lostReported = false;
  #reportedBlock = '';

  constructor(identity: Identity, options: RegistrationOptions, random: Random) {
    this.#identity = identity;
    this.#options = options;
    this.#random = random;
    this.#renewal = new LeaseRenewal(options, random, this.#outbox);
    this.#maintenance = new RegistrationMaintenance(identity.id, options, random, this.#outbox);
  }

  /** Undefined until the registry has replied. */
  get state(): NodeStateRecord | undefined {
    return this.#state?.record;
  }

  /** For keys that end together with the registration. */
  get lease(): LeaseId | undefined {
    return this.#renewal.lease;
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    this.#outbox.nowMs = nowMs;
    if (this.#phase.kind !== 'ended') this.#handle(input);
    this.#checkLease();
    return this.#outbox.takeAll();
  }

  #handle(input: Input): void {
    switch (input.kind) {
      case 'start':
        return this.#readSnapshot();
      case 'snapshotRead':
        return this.#onSnapshot(input.call, input.outcome);
      case 'granted':
        return this.#onGranted(input.call, input.outcome);
      case 'written':
        return this.#onWritten(input.call, input.outcome);
      case 'renewed':
        return this.#onRenewed(input.call, input.outcome);
      case 'reconciled':
        return this.#onReconciled(input.call, input.outcome);
      case 'changed':
        return this.#onChanged(input.watch, input.changes);
      case 'compacted':
        if (input.watch === this.#watch && this.#phase.kind === 'registered') this.#readSnapshot();
        return;
      case 'term':
        this.#maintenance.termSeen(input.term);
        if (this.#phase.kind === 'registered') this.#maintenance.check();
        return;
      case 'leave':
        return this.#leave();
      case 'expired':
        return this.#onTimer(input.timer);
      case 'persistFailed':
        return;
      default:
        return unreachable(input);
    }
  }

  #onTimer(timer: RegistrationTimer): void {
    switch (timer.kind) {
      case 'retry':
        if (this.#phase.kind === 'reading' && this.#phase.call === timer.call)
          this.#outbox.push({ kind: 'readSnapshot', call: timer.call });
        return;
      case 'renew':
        return this.#renewal.onDue(timer.lease);
      case 'reconcile':
        return this.#onReconciled(timer.call, failure('DEADLINE'));
      case 'maintenance':
        if (this.#phase.kind === 'registered') this.#maintain();
        return;
      case 'lease':
        return;
      default:
        return unreachable(timer);
    }
  }

  // Reading and registering.

  #readSnapshot(): void {
    const call = this.#outbox.newCall();
    this.#phase = { kind: 'reading', call };
    this.#outbox.push({ kind: 'readSnapshot', call });
  }

  #readLater(): void {
    const call = this.#outbox.newCall();
    this.#phase = { kind: 'reading', call };
    this.#outbox.scheduleIn(registrationBackoffMs(this.#options, this.#failures++, this.#random), {
      kind: 'retry',
      call,
    });
  }

  #onSnapshot(call: number, outcome: Outcome<ClusterSnapshot>): void {
    if (this.#maintenance.onSnapshot(call, outcome, this.#phase.kind === 'registered')) return;
    if (this.#phase.kind !== 'reading' || this.#phase.call !== call) return;
    if (!outcome.ok) return this.#retryBlocked(`the registry does not reply: ${outcome.error.code}`);
    const snapshot = outcome.value;
    this.#wallOffsetMs = snapshot.wallMs - this.#outbox.nowMs;
    const decision = this.#decide(snapshot);
    if (decision.kind === 'wait') return this.#retryBlocked(decision.text);
    this.#reportedBlock = '';
    if (decision.kind === 'fenced') this.#onFenced(decision.text);
    else if (decision.kind === 'held') this.#onHeld(snapshot, decision.state);
    else this.#register(decision);
  }

  #decide(snapshot: ClusterSnapshot): RegistrationDecision {
    if (snapshot.term > (snapshot.epoch?.record?.term ?? 0) && this.#newTerm?.term !== snapshot.term)
      this.#newTerm = { term: snapshot.term, sinceMs: this.#outbox.nowMs };
    const sinceMs = this.#newTerm?.term === snapshot.term ? this.#newTerm.sinceMs : this.#outbox.nowMs;
    return decideRegistration(snapshot, {
      identity: this.#identity,
      policy: this.#options,
      wasRegistered: this.#wasRegistered,
      lease: this.#renewal.lease,
      previousLeases: this.#renewal.leases,
      noSurvivorSeen: this.#outbox.nowMs - sinceMs >= this.#options.survivorGraceMs,
    });
  }

  #retryBlocked(text: string): void {
    if (text !== this.#reportedBlock)
      this.#outbox.emit({ type: 'registration.blocked', node: this.#identity.id, text });
    this.#reportedBlock = text;
    this.#readLater();
  }

  #onFenced(text: string): void {
    this.#end();
    this.#outbox.push({ kind: 'fenced', error: new RemusterError('FENCED', text) });
  }

  #register(entry: RegistrationEntry): void {
    const { lease } = this.#renewal;
    if (lease === undefined) {
      const call = this.#outbox.newCall();
      this.#phase = { kind: 'granting', call, entry, sentMs: this.#outbox.nowMs };
      return this.#outbox.push({ kind: 'grant', call });
    }
    this.#supersededLease = entry.previousLease;
    const transaction = registerTransaction(entry, this.#identity, lease, this.#wallMs);
    this.#phase = { kind: 'registering', call: this.#outbox.write(transaction) };
  }

  #onGranted(call: number, outcome: Outcome<{ lease: LeaseId; ttlMs: number }>): void {
    if (this.#phase.kind !== 'granting' || this.#phase.call !== call) return;
    if (!outcome.ok) return this.#retryBlocked(`the registry grants no lease: ${outcome.error.code}`);
    const { lease, ttlMs } = outcome.value;
    this.#renewal.begin(lease, this.#phase.sentMs, ttlMs);
    this.#register(this.#phase.entry);
  }

  #onWritten(call: number, outcome: Outcome<TransactionResult>): void {
    if (this.#maintenance.onWritten(call, outcome, this.#phase.kind === 'registered')) return;
    const phase = this.#phase;
    if (!('call' in phase) || phase.call !== call) return;
    if (phase.kind === 'leaving') return this.#onLeft(outcome);
    if (!outcome.ok) {
      if (outcome.error.code === 'LEASE_EXPIRED') this.#renewal.end();
      return this.#readLater();
    }
    const { succeeded, revision } = outcome.value;
    if (!succeeded && ++this.#conflicts > conflictsInARowMax) return this.#readLater();
    if (succeeded) this.#conflicts = 0;
    if (!succeeded || phase.kind !== 'activating' || this.#state === undefined) return this.#readSnapshot();
    this.#setState({ record: { ...this.#state.record, mode: 'active' }, modRevision: revision });
    this.#finish(phase.snapshot);
  }

  // Holding the registration: reconcile, then activate.

  #onHeld(snapshot: ClusterSnapshot, record: NodeStateRecord): void {
    const revision = snapshot.registration?.entry.modRevision ?? 0;
    const { id: node, generation } = this.#identity;
    if (revision !== this.#registrationRevision)
      this.#outbox.emit({ type: 'node.registered', node, generation, epoch: record.epoch });
    else if (this.#lostReported) this.#outbox.emit({ type: 'registration.resumed', node });
    if (this.#supersededLease !== undefined) this.#outbox.push({ kind: 'revoke', lease: this.#supersededLease });
    this.#supersededLease = undefined;
    this.#registrationRevision = revision;
    this.#wasRegistered = true;
    this.#setState({ record, modRevision: snapshot.state?.entry.modRevision ?? 0 });
    if (record.mode === 'drained') return this.#finish(snapshot);
    const call = this.#outbox.newCall();
    this.#phase = { kind: 'reconciling', call, snapshot };
    this.#outbox.push({ kind: 'reconcile', call });
    this.#outbox.scheduleIn(this.#options.reconcileTimeoutMs, { kind: 'reconcile', call });
  }

  #onReconciled(call: number, outcome: Outcome<void>): void {
    if (this.#phase.kind !== 'reconciling' || this.#phase.call !== call) return;
    const { snapshot } = this.#phase;
    if (!outcome.ok) {
      this.#outbox.emit({ type: 'reconcile.failed', node: this.#identity.id, text: outcome.error.message });
      return this.#readLater();
    }
    if (this.#state?.record.mode !== 'joining') return this.#finish(snapshot);
    const activation = becomeActiveTransaction(
      this.#identity.id,
      this.#state,
      this.#registrationRevision,
      this.#wallMs,
    );
    this.#phase = { kind: 'activating', call: this.#outbox.write(activation), snapshot };
  }

  #finish(snapshot: ClusterSnapshot): void {
    this.#phase = { kind: 'registered' };
    this.#failures = 0;
    this.#lostReported = false;
    this.#ready = this.#state !== undefined && canServeIn(this.#state.record.mode);
    this.#watch += 1;
    const start = { revision: snapshot.revision + 1, epoch: snapshot.registryEpoch };
    this.#outbox.push({ kind: 'watch', watch: this.#watch, start });
    this.#maintenance.termSeen(snapshot.term);
    this.#maintain();
  }

  #onChanged(watch: number, changes: readonly RegistryChange[]): void {
    if (watch !== this.#watch || this.#phase.kind !== 'registered') return;
    const known = { registration: this.#registrationRevision, state: this.#state?.modRevision ?? 0 };
    const own = ownKeyChanges(changes, known);
    if (own.needsReread) return this.#readSnapshot();
    if (own.state !== undefined) {
      this.#setState(own.state);
      // A node that was activated reconciles first, as at the start.
      if (!this.#ready && own.state.record.mode !== 'drained') return this.#readSnapshot();
      this.#maintain();
    }
  }

  #setState(state: OwnStateRecord): void {
    const [before, after] = [this.#state?.record, state.record];
    this.#state = state;
    if (!canServeIn(after.mode)) this.#ready = false;
    if (before?.mode === after.mode && before.reason === after.reason) return;
    if (after.mode === 'drained') this.#drainedMs = this.#outbox.nowMs;
    this.#outbox.emit({ type: 'node.state', node: this.#identity.id, mode: after.mode, reason: after.reason });
  }

  // Lease and time.

  #onRenewed(call: number, outcome: Outcome<unknown>): void {
    const result = this.#renewal.onReply(call, outcome);
    const canResume = result === 'renewed' && this.#phase.kind === 'suspended';
    if (canResume || (result === 'expired' && this.#phase.kind !== 'leaving')) this.#readSnapshot();
  }

  #checkLease(): void {
    if (!this.#renewal.isCertainlyHeld(this.#outbox.nowMs)) {
      this.#ready = false;
      if (this.#phase.kind === 'registered') this.#phase = { kind: 'suspended' };
    }
    if (
      this.#phase.kind === 'ended' ||
      !this.#wasRegistered ||
      this.#lostReported ||
      !this.#renewal.isOver(this.#outbox.nowMs)
    )
      return;
    this.#lostReported = true;
    const silentMs = Math.round(this.#renewal.sinceRenewalMs(this.#outbox.nowMs));
    this.#outbox.emit({ type: 'registration.lost', node: this.#identity.id, silentMs });
  }

  get #wallMs(): number {
    return this.#outbox.nowMs + this.#wallOffsetMs;
  }

  #maintain(): void {
    this.#maintenance.check();
    if (this.#state === undefined) return;
    const noFailureSinceMs = Math.max(this.#drainedMs, this.#renewal.lastFailureMs);
    this.#maintenance.rejoin(this.#state, this.#registrationRevision, noFailureSinceMs, this.#wallMs);
  }

  // Leaving and ending.

  #leave(): void {
    this.#ready = false;
    this.#outbox.push({ kind: 'unwatch' });
    if (!this.#wasRegistered || this.#renewal.lease === undefined) return this.#onLeft(undefined);
    const leave = deregisterTransaction(this.#identity.id, this.#registrationRevision);
    this.#phase = { kind: 'leaving', call: this.#outbox.write(leave) };
  }

  #onLeft(outcome: Outcome<TransactionResult> | undefined): void {
    this.#end();
    this.#outbox.push({ kind: 'left', outcome: outcome === undefined || outcome.ok ? success(undefined) : outcome });
  }

  #end(): void {
    this.#ready = false;
    this.#phase = { kind: 'ended' };
    this.#outbox.push({ kind: 'unwatch' });
    if (this.#renewal.lease !== undefined) this.#outbox.push({ kind: 'revoke', lease: this.#renewal.lease });
    this.#renewal.end();
  }
}
