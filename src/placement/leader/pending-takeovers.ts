/**
 * Takeovers whose outcome is unknown. While one is open, its node is granted no serving lease, or it could serve what
 * another node received.
 */
import type { Outcome } from '../../base/errors.ts';
import type { TransactionResult } from '../../base/registry.ts';
import type { NodeInstance } from '../state/container-records.ts';
import type { RunningTask } from './task-tracker.ts';
import type { ServingLeases } from '../state/serving-leases.ts';

type Takeover = { readonly from: NodeInstance; readonly modRevision: number };

/** The words of the registry port for a write that has not happened. */
const surelyNot: readonly string[] = ['NO_QUORUM', 'NOT_LEADER', 'CAPACITY'];

export class PendingTakeovers {
  readonly #leases: ServingLeases;
  /** By container. */
  readonly #takings = new Map<string, Takeover>();

  constructor(leases: ServingLeases) {
    this.#leases = leases;
  }

  takeoverStarted(nowMs: number, { name, task }: RunningTask): void {
    if (task.kind !== 'change' || task.change.previousOwner === undefined || this.#takings.has(name)) return;
    const from = task.change.previousOwner;
    this.#takings.set(name, { from, modRevision: task.change.placed.modRevision });
    this.#leases.blockGrants(nowMs, from.node, from.generation);
  }

  takeoverEnded({ name, task }: RunningTask, outcome: Outcome<TransactionResult>): void {
    if (task.kind !== 'change' || task.change.previousOwner === undefined) return;
    if (outcome.ok) this.#settle(name, this.#takenAt(name, outcome.value));
    else if (surelyNot.includes(outcome.error.code)) this.#settle(name, undefined);
  }

  /** The record as the view shows it: what rested on an older one can no longer happen. */
  recordSeen(container: string, modRevision: number | undefined): void {
    const taking = this.#takings.get(container);
    if (taking !== undefined && taking.modRevision !== modRevision) this.#settle(container, modRevision);
  }

  clear(): void {
    this.#takings.clear();
  }

  /** One that was refused says what the record is by now: perhaps an earlier try without an answer has changed it. */
  #takenAt(container: string, { succeeded, revision, results: [found] }: TransactionResult): number | undefined {
    if (succeeded) return revision;
    const modRevision = found?.kind === 'read' ? found.entries[0]?.modRevision : undefined;
    return modRevision === this.#takings.get(container)?.modRevision ? undefined : modRevision;
  }

  #settle(container: string, revokedRevision: number | undefined): void {
    const taking = this.#takings.get(container);
    if (taking === undefined) return;
    this.#takings.delete(container);
    this.#leases.unblockGrants(taking.from.node, taking.from.generation, revokedRevision);
  }
}
