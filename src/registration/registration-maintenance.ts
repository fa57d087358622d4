/**
 * Background duties of a registered node: confirm the epoch under each new leader, adopt a newer epoch, rejoin with
 * `rejoin: auto`. One at a time.
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
  readonly #out: RegistrationOutbox;
  #call: number | undefined;
  /** The highest that was heard of, and the one under which all was found in order. */
  #term = 0;
  #keptTerm = -1;

  constructor(node: NodeId, options: RegistrationOptions, random: Random, out: RegistrationOutbox) {
    this.#node = node;
    this.#options = options;
    this.#random = random;
    this.#out = out;
  }

  termSeen(term: number): void {
    this.#term = Math.max(this.#term, term);
  }

  /** To be called whenever the node is settled and something may be due. */
  check(): void {
    if (this.#call !== undefined || this.#term <= this.#keptTerm) return;
    this.#call = this.#out.newCall();
    this.#out.push({ kind: 'look', call: this.#call });
  }

  /** False: the answer is not for us. */
  onSnapshot(call: number, outcome: Outcome<ClusterSnapshot>, settled: boolean): boolean {
    if (call !== this.#call) return false;
    this.#call = undefined;
    if (!outcome.ok) this.#later();
    else {
      const transaction = duty(this.#node, outcome.value);
      if (transaction === undefined) this.#keptTerm = Math.max(outcome.value.term, this.#keptTerm);
      else if (settled) this.#call = this.#out.write(transaction);
    }
    return true;
  }

  /** Whether it was carried out or not: the next look tells what is left to do. */
  onWritten(call: number, outcome: Outcome<TransactionResult>, settled: boolean): boolean {
    if (call !== this.#call) return false;
    this.#call = undefined;
    if (!outcome.ok) this.#later();
    else if (settled) this.check();
    return true;
  }

  /** `quietSinceMs`: no renewal has failed since then, and the node was drained. */
  rejoin(state: OwnStateRecord, registrationRevision: number, quietSinceMs: number, wallMs: number): void {
    if (this.#options.rejoin !== 'auto' || state.record.mode !== 'drained' || !isLateReturn(state.record.reason))
      return;
    const leftMs = quietSinceMs + this.#options.rejoinHoldMs - this.#out.nowMs;
    if (leftMs > 0) return this.#out.scheduleIn(leftMs, { kind: 'upkeep' });
    this.#out.scheduleIn(this.#options.backoffMaxMs + this.#options.callTimeoutMs, { kind: 'upkeep' });
    if (this.#call !== undefined) return;
    this.#call = this.#out.write(becomeActiveTransaction(this.#node, state, registrationRevision, wallMs));
  }

  #later(): void {
    this.#out.scheduleIn(registrationBackoffMs(this.#options, 0, this.#random), { kind: 'upkeep' });
  }
}

/** Undefined: all is as it should be. */
function duty(node: NodeId, { state, epoch, term }: ClusterSnapshot): RegistryTransaction | undefined {
  if (state?.record === undefined || epoch?.record === undefined) return undefined;
  if (state.record.epoch !== epoch.record.epoch)
    return adoptEpochTransaction(
      node,
      { entry: state.entry, record: state.record },
      { entry: epoch.entry, record: epoch.record },
    );
  return term > epoch.record.term ? continueEpochTransaction(epoch.entry, { ...epoch.record, term }) : undefined;
}
