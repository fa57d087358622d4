/**
 * Background work of a registered node: confirms the epoch under each new leader, adopts a newer epoch, and rejoins
 * with `rejoin: auto`. One transaction at a time.
 */
import type { Outcome } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Random } from '../base/random.ts';
import type { RegistryTransaction, TransactionResult } from '../base/registry.ts';
import type { RegistrationOutbox } from './registration-types.ts';
import { isLateReturn } from './node-modes.ts';
import type { RegistrationOptions } from './registration-options.ts';
import type { ClusterSnapshot } from './cluster-snapshot.ts';
import type { NodeStateRecord } from './registration-records.ts';
import { registrationBackoffMs } from './lease-renewal.ts';
import {
  adoptEpochTransaction,
  continueEpochTransaction,
  becomeActiveTransaction,
} from './registration-transactions.ts';

export type OwnStateRecord = { readonly record: NodeStateRecord; readonly modRevision: number };

export class RegistrationMaintenance {
  readonly #node: NodeId;
  readonly #options: RegistrationOptions;
  readonly #random: Random;
  readonly #outbox: RegistrationOutbox;
  #call: number | undefined;
  /** The highest known term, and the one under which the epoch was confirmed. */
  #term = 0;
  #confirmedTerm = -1;

  constructor(node: NodeId, options: RegistrationOptions, random: Random, outbox: RegistrationOutbox) {
    this.#node = node;
    this.#options = options;
    this.#random = random;
    this.#outbox = outbox;
  }

  termSeen(term: number): void {
    this.#term = Math.max(this.#term, term);
  }

  /** Reads a snapshot if a term is unconfirmed. Call it whenever the node is registered and the term may be new. */
  check(): void {
    if (this.#call !== undefined || this.#term <= this.#confirmedTerm) return;
    this.#call = this.#outbox.newCall();
    this.#outbox.push({ kind: 'readSnapshot', call: this.#call });
  }

  /** False: the reply belongs to another part. */
  onSnapshot(call: number, outcome: Outcome<ClusterSnapshot>, isRegistered: boolean): boolean {
    if (call !== this.#call) return false;
    this.#call = undefined;
    if (!outcome.ok) this.#retryLater();
    else {
      const transaction = maintenanceTransaction(this.#node, outcome.value);
      if (transaction === undefined) this.#confirmedTerm = Math.max(outcome.value.term, this.#confirmedTerm);
      else if (isRegistered) this.#call = this.#outbox.write(transaction);
    }
    return true;
  }

  /** Whether the transaction succeeded or not, the next snapshot shows what is left to do. */
  onWritten(call: number, outcome: Outcome<TransactionResult>, isRegistered: boolean): boolean {
    if (call !== this.#call) return false;
    this.#call = undefined;
    if (!outcome.ok) this.#retryLater();
    else if (isRegistered) this.check();
    return true;
  }

  /** With `rejoin: auto`: activates a late return that has been drained, without a failed renewal, for long enough. */
  rejoin(state: OwnStateRecord, registrationRevision: number, noFailureSinceMs: number, wallMs: number): void {
    if (this.#options.rejoin !== 'auto' || state.record.mode !== 'drained' || !isLateReturn(state.record.reason))
      return;
    const leftMs = noFailureSinceMs + this.#options.rejoinHoldMs - this.#outbox.nowMs;
    if (leftMs > 0) return this.#outbox.scheduleIn(leftMs, { kind: 'maintenance' });
    this.#outbox.scheduleIn(this.#options.backoffMaxMs + this.#options.callTimeoutMs, { kind: 'maintenance' });
    if (this.#call !== undefined) return;
    this.#call = this.#outbox.write(becomeActiveTransaction(this.#node, state, registrationRevision, wallMs));
  }

  #retryLater(): void {
    this.#outbox.scheduleIn(registrationBackoffMs(this.#options, 0, this.#random), { kind: 'maintenance' });
  }
}

/** Undefined if the epoch is confirmed and adopted. */
function maintenanceTransaction(
  node: NodeId,
  { state, epoch, term }: ClusterSnapshot,
): RegistryTransaction | undefined {
  if (state?.record === undefined || epoch?.record === undefined) return undefined;
  if (state.record.epoch !== epoch.record.epoch)
    return adoptEpochTransaction(
      node,
      { entry: state.entry, record: state.record },
      { entry: epoch.entry, record: epoch.record },
    );
  return term > epoch.record.term ? continueEpochTransaction(epoch.entry, { ...epoch.record, term }) : undefined;
}
