/**
 * What a registered node does besides renewing, one thing at a time and without disturbing what it serves. Under each
 * new leader it says that the epoch goes on, because it was here all the time, and it takes over a new epoch that others
 * began while it could not be heard. With `rejoin: auto` it becomes active again after a time without failures.
 */
import type { Outcome } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import type { Outbox } from './machine-words.ts';
import { isReturn } from './modes.ts';
import type { RegistrationOptions } from './options.ts';
import type { Picture } from './picture.ts';
import type { StateRecord } from './records.ts';
import { backoffMs } from './renewal.ts';
import { adoptEpoch, continueEpoch, turnActive } from './writes.ts';

export type OwnState = { readonly record: StateRecord; readonly modRevision: number };

export class Upkeep {
  readonly #node: NodeId;
  readonly #options: RegistrationOptions;
  readonly #random: Random;
  readonly #out: Outbox;
  #call: number | undefined;
  /** The highest that was heard of, and the one under which all was found in order. */
  #term = 0;
  #keptTerm = -1;

  constructor(node: NodeId, options: RegistrationOptions, random: Random, out: Outbox) {
    this.#node = node;
    this.#options = options;
    this.#random = random;
    this.#out = out;
  }

  heard(term: number): void {
    this.#term = Math.max(this.#term, term);
  }

  /** To be called whenever the node is settled and something may be due. */
  look(): void {
    if (this.#call !== undefined || this.#term <= this.#keptTerm) return;
    this.#call = this.#out.newCall();
    this.#out.put({ kind: 'look', call: this.#call });
  }

  /** False: the answer is not for us. */
  looked(call: number, outcome: Outcome<Picture>, settled: boolean): boolean {
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
  written(call: number, outcome: Outcome<TransactionResult>, settled: boolean): boolean {
    if (call !== this.#call) return false;
    this.#call = undefined;
    if (!outcome.ok) this.#later();
    else if (settled) this.look();
    return true;
  }

  /** `quietSinceMs`: no renewal has failed since then, and the node was drained. */
  rejoin(state: OwnState, registrationRevision: number, quietSinceMs: number, wallMs: number): void {
    if (this.#options.rejoin !== 'auto' || state.record.mode !== 'drained' || !isReturn(state.record.reason)) return;
    const leftMs = quietSinceMs + this.#options.rejoinHoldMs - this.#out.nowMs;
    if (leftMs > 0) return this.#out.after(leftMs, { kind: 'upkeep' });
    this.#out.after(this.#options.backoffMaxMs + this.#options.callTimeoutMs, { kind: 'upkeep' });
    if (this.#call !== undefined) return;
    this.#call = this.#out.write(turnActive(this.#node, state, registrationRevision, wallMs));
  }

  #later(): void {
    this.#out.after(backoffMs(this.#options, 0, this.#random), { kind: 'upkeep' });
  }
}

/** Undefined: all is as it should be. */
function duty(node: NodeId, { state, epoch, term }: Picture): RegistryTransaction | undefined {
  if (state?.record === undefined || epoch?.record === undefined) return undefined;
  if (state.record.epoch !== epoch.record.epoch)
    return adoptEpoch(node, { entry: state.entry, record: state.record }, { entry: epoch.entry, record: epoch.record });
  return term > epoch.record.term ? continueEpoch(epoch.entry, { ...epoch.record, term }) : undefined;
}
