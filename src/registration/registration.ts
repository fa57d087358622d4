/**
 * Registration of one node as a machine: read, register, reconcile, activate, renew. Whatever is in doubt is read again
 * from the registry. Serves nothing: that is for the serving lease of the containers.
 *
 *   look --> grant --> enter --> look --> reconcile --> turn active --> settled, watching
 *    ^         (a lease)                                                  |        ^
 *    |                                                                    v        |
 *    +---- the lease holds after all, or the registry says it is gone --- paused --+
 *
 * Whatever is in doubt leads back to `look`: what stands in the registry decides, never what this node remembers.
 * Renewal runs beside all this and never ends. The machine knows no container.
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
  | { readonly kind: 'idle' | 'settled' | 'paused' | 'over' }
  | { readonly kind: 'looking' | 'entering' | 'leaving'; readonly call: number }
  | { readonly kind: 'granting'; readonly call: number; readonly entry: RegistrationEntry; readonly sentMs: number }
  | { readonly kind: 'reconciling' | 'turning'; readonly call: number; readonly picture: ClusterSnapshot };

type Input = RegistrationInput | TimerExpired<RegistrationTimer> | PersistFailed;
type Effect = RegistrationEffect | Schedule<RegistrationTimer>;

const conflictsInARowMax = 3;

export class Registration implements Machine<Input, Effect> {
  readonly #identity: Identity;
  readonly #options: RegistrationOptions;
  readonly #random: Random;
  readonly #out = new RegistrationOutbox();
  readonly #renewal: LeaseRenewal;
  readonly #upkeep: RegistrationMaintenance;
  #phase: Phase = { kind: 'idle' };
  #failures = 0;
  #conflicts = 0;
  #wasRegistered = false;
  #registrationRevision = 0;
  #state: OwnStateRecord | undefined;
  #drainedMs = 0;
  /** Of an earlier life, to be revoked once we hold the registration. */
  #supersededLease: LeaseId | undefined;
  /** What this node holds has been confirmed, and no change can have been missed since. */
  #ready = false;
  #newTerm: { readonly term: number; readonly sinceMs: number } | undefined;
  #watch = 0;
  /** For people only. */
  #wallOffsetMs = 0;
  #lostTold = false;
  #blockedTold = '';

  constructor(identity: Identity, options: RegistrationOptions, random: Random) {
    this.#identity = identity;
    this.#options = options;
    this.#random = random;
    this.#renewal = new LeaseRenewal(options, random, this.#out);
    this.#upkeep = new RegistrationMaintenance(identity.id, options, random, this.#out);
  }

  /** Undefined until it is known. */
  get state(): NodeStateRecord | undefined {
    return this.#state?.record;
  }

  /** For what shall end together with the registration. */
  get lease(): LeaseId | undefined {
    return this.#renewal.lease;
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    this.#out.nowMs = nowMs;
    if (this.#phase.kind !== 'over') this.#take(input);
    this.#checkLease();
    return this.#out.takeAll();
  }

  #take(input: Input): void {
    switch (input.kind) {
      case 'start':
        return this.#look();
      case 'looked':
        return this.#looked(input.call, input.outcome);
      case 'granted':
        return this.#granted(input.call, input.outcome);
      case 'written':
        return this.#written(input.call, input.outcome);
      case 'renewed':
        return this.#renewed(input.call, input.outcome);
      case 'reconciled':
        return this.#reconciled(input.call, input.outcome);
      case 'changed':
        return this.#changed(input.watch, input.changes);
      case 'compacted':
        if (input.watch === this.#watch && this.#phase.kind === 'settled') this.#look();
        return;
      case 'term':
        this.#upkeep.termSeen(input.term);
        if (this.#phase.kind === 'settled') this.#upkeep.check();
        return;
      case 'leave':
        return this.#leave();
      case 'expired':
        return this.#expired(input.timer);
      case 'persistFailed':
        return;
      default:
        return unreachable(input);
    }
  }

  #expired(timer: RegistrationTimer): void {
    switch (timer.kind) {
      case 'retry':
        if (this.#phase.kind === 'looking' && this.#phase.call === timer.call)
          this.#out.push({ kind: 'look', call: timer.call });
        return;
      case 'renew':
        return this.#renewal.onDue(timer.lease);
      case 'reconcile':
        return this.#reconciled(timer.call, failure('DEADLINE'));
      case 'upkeep':
        if (this.#phase.kind === 'settled') this.#maintain();
        return;
      case 'lease':
        return;
      default:
        return unreachable(timer);
    }
  }

  // Looking and entering.

  #look(): void {
    const call = this.#out.newCall();
    this.#phase = { kind: 'looking', call };
    this.#out.push({ kind: 'look', call });
  }

  #lookLater(): void {
    const call = this.#out.newCall();
    this.#phase = { kind: 'looking', call };
    this.#out.scheduleIn(registrationBackoffMs(this.#options, this.#failures++, this.#random), { kind: 'retry', call });
  }

  #looked(call: number, outcome: Outcome<ClusterSnapshot>): void {
    if (this.#upkeep.onSnapshot(call, outcome, this.#phase.kind === 'settled')) return;
    if (this.#phase.kind !== 'looking' || this.#phase.call !== call) return;
    if (!outcome.ok) return this.#blocked(`the registry does not answer: ${outcome.error.code}`);
    const picture = outcome.value;
    this.#wallOffsetMs = picture.wallMs - this.#out.nowMs;
    const verdict = this.#judge(picture);
    if (verdict.kind === 'wait') return this.#blocked(verdict.text);
    this.#blockedTold = '';
    if (verdict.kind === 'fenced') this.#fenced(verdict.text);
    else if (verdict.kind === 'held') this.#hold(picture, verdict.state);
    else this.#enter(verdict);
  }

  #judge(picture: ClusterSnapshot): RegistrationDecision {
    if (picture.term > (picture.epoch?.record?.term ?? 0) && this.#newTerm?.term !== picture.term)
      this.#newTerm = { term: picture.term, sinceMs: this.#out.nowMs };
    const sinceMs = this.#newTerm?.term === picture.term ? this.#newTerm.sinceMs : this.#out.nowMs;
    return decideRegistration(picture, {
      identity: this.#identity,
      policy: this.#options,
      wasRegistered: this.#wasRegistered,
      lease: this.#renewal.lease,
      previousLeases: this.#renewal.leases,
      noSurvivorSeen: this.#out.nowMs - sinceMs >= this.#options.survivorGraceMs,
    });
  }

  #blocked(text: string): void {
    if (text !== this.#blockedTold) this.#out.emit({ type: 'registration.blocked', node: this.#identity.id, text });
    this.#blockedTold = text;
    this.#lookLater();
  }

  #fenced(text: string): void {
    this.#end();
    this.#out.push({ kind: 'fenced', error: new RemusterError('FENCED', text) });
  }

  #enter(entry: RegistrationEntry): void {
    const { lease } = this.#renewal;
    if (lease === undefined) {
      const call = this.#out.newCall();
      this.#phase = { kind: 'granting', call, entry, sentMs: this.#out.nowMs };
      return this.#out.push({ kind: 'grant', call });
    }
    this.#supersededLease = entry.formerLease;
    const transaction = registerTransaction(entry, this.#identity, lease, this.#wallMs);
    this.#phase = { kind: 'entering', call: this.#out.write(transaction) };
  }

  #granted(call: number, outcome: Outcome<{ lease: LeaseId; ttlMs: number }>): void {
    if (this.#phase.kind !== 'granting' || this.#phase.call !== call) return;
    if (!outcome.ok) return this.#blocked(`the registry gives no lease: ${outcome.error.code}`);
    const { lease, ttlMs } = outcome.value;
    this.#renewal.begin(lease, this.#phase.sentMs, ttlMs);
    this.#enter(this.#phase.entry);
  }

  #written(call: number, outcome: Outcome<TransactionResult>): void {
    if (this.#upkeep.onWritten(call, outcome, this.#phase.kind === 'settled')) return;
    const phase = this.#phase;
    if (!('call' in phase) || phase.call !== call) return;
    if (phase.kind === 'leaving') return this.#leaving(outcome);
    if (!outcome.ok) {
      if (outcome.error.code === 'LEASE_EXPIRED') this.#renewal.end();
      return this.#lookLater();
    }
    const { succeeded, revision } = outcome.value;
    if (!succeeded && ++this.#conflicts > conflictsInARowMax) return this.#lookLater();
    if (succeeded) this.#conflicts = 0;
    if (!succeeded || phase.kind !== 'turning' || this.#state === undefined) return this.#look();
    this.#adopt({ record: { ...this.#state.record, mode: 'active' }, modRevision: revision });
    this.#settle(phase.picture);
  }

  // Holding the registration: confirm what this node holds, then be active.

  #hold(picture: ClusterSnapshot, record: NodeStateRecord): void {
    const revision = picture.registration?.entry.modRevision ?? 0;
    const { id: node, generation } = this.#identity;
    if (revision !== this.#registrationRevision)
      this.#out.emit({ type: 'node.registered', node, generation, epoch: record.epoch });
    else if (this.#lostTold) this.#out.emit({ type: 'registration.resumed', node });
    if (this.#supersededLease !== undefined) this.#out.push({ kind: 'revoke', lease: this.#supersededLease });
    this.#supersededLease = undefined;
    this.#registrationRevision = revision;
    this.#wasRegistered = true;
    this.#adopt({ record, modRevision: picture.state?.entry.modRevision ?? 0 });
    if (record.mode === 'drained') return this.#settle(picture);
    const call = this.#out.newCall();
    this.#phase = { kind: 'reconciling', call, picture };
    this.#out.push({ kind: 'reconcile', call });
    this.#out.scheduleIn(this.#options.reconcileTimeoutMs, { kind: 'reconcile', call });
  }

  #reconciled(call: number, outcome: Outcome<void>): void {
    if (this.#phase.kind !== 'reconciling' || this.#phase.call !== call) return;
    const { picture } = this.#phase;
    if (!outcome.ok) {
      this.#out.emit({ type: 'reconcile.failed', node: this.#identity.id, text: outcome.error.message });
      return this.#lookLater();
    }
    if (this.#state?.record.mode !== 'joining') return this.#settle(picture);
    const turn = becomeActiveTransaction(this.#identity.id, this.#state, this.#registrationRevision, this.#wallMs);
    this.#phase = { kind: 'turning', call: this.#out.write(turn), picture };
  }

  #settle(picture: ClusterSnapshot): void {
    this.#phase = { kind: 'settled' };
    this.#failures = 0;
    this.#lostTold = false;
    this.#ready = this.#state !== undefined && canServeIn(this.#state.record.mode);
    this.#watch += 1;
    this.#out.push({ kind: 'watch', watch: this.#watch, fromRevision: picture.revision + 1 });
    this.#upkeep.termSeen(picture.term);
    this.#maintain();
  }

  #changed(watch: number, changes: readonly RegistryChange[]): void {
    if (watch !== this.#watch || this.#phase.kind !== 'settled') return;
    const known = { registration: this.#registrationRevision, state: this.#state?.modRevision ?? 0 };
    const news = ownKeyChanges(changes, known);
    if (news.needsReread) return this.#look();
    if (news.state !== undefined) {
      this.#adopt(news.state);
      // Activated: what this node holds is confirmed first, as at the start.
      if (!this.#ready && news.state.record.mode !== 'drained') return this.#look();
      this.#maintain();
    }
  }

  #adopt(state: OwnStateRecord): void {
    const [before, after] = [this.#state?.record, state.record];
    this.#state = state;
    if (!canServeIn(after.mode)) this.#ready = false;
    if (before?.mode === after.mode && before.reason === after.reason) return;
    if (after.mode === 'drained') this.#drainedMs = this.#out.nowMs;
    this.#out.emit({ type: 'node.state', node: this.#identity.id, mode: after.mode, reason: after.reason });
  }

  // What time and the lease do to all this.

  #renewed(call: number, outcome: Outcome<unknown>): void {
    const result = this.#renewal.onReply(call, outcome);
    const isPaused = result === 'good' && this.#phase.kind === 'paused';
    if (isPaused || (result === 'expired' && this.#phase.kind !== 'leaving')) this.#look();
  }

  #checkLease(): void {
    if (!this.#renewal.isCertainlyHeld(this.#out.nowMs)) {
      this.#ready = false;
      if (this.#phase.kind === 'settled') this.#phase = { kind: 'paused' };
    }
    if (this.#phase.kind === 'over' || !this.#wasRegistered || this.#lostTold || !this.#renewal.isOver(this.#out.nowMs))
      return;
    this.#lostTold = true;
    const silentMs = this.#renewal.sinceRenewalMs(this.#out.nowMs);
    this.#out.emit({ type: 'registration.lost', node: this.#identity.id, silentMs });
  }

  get #wallMs(): number {
    return this.#out.nowMs + this.#wallOffsetMs;
  }

  #maintain(): void {
    this.#upkeep.check();
    if (this.#state === undefined) return;
    const quietSinceMs = Math.max(this.#drainedMs, this.#renewal.lastFailureMs);
    this.#upkeep.rejoin(this.#state, this.#registrationRevision, quietSinceMs, this.#wallMs);
  }

  // The end.

  #leave(): void {
    this.#ready = false;
    this.#out.push({ kind: 'unwatch' });
    if (!this.#wasRegistered || this.#renewal.lease === undefined) return this.#leaving(undefined);
    const leave = deregisterTransaction(this.#identity.id, this.#registrationRevision);
    this.#phase = { kind: 'leaving', call: this.#out.write(leave) };
  }

  #leaving(outcome: Outcome<TransactionResult> | undefined): void {
    this.#end();
    this.#out.push({ kind: 'left', outcome: outcome === undefined || outcome.ok ? success(undefined) : outcome });
  }

  #end(): void {
    this.#ready = false;
    this.#phase = { kind: 'over' };
    this.#out.push({ kind: 'unwatch' });
    if (this.#renewal.lease !== undefined) this.#out.push({ kind: 'revoke', lease: this.#renewal.lease });
    this.#renewal.end();
  }
}
