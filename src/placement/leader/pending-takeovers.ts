/**
 * Takeovers whose outcome is unknown. While one is open, the former owner gets no serving lease: it could serve a
 * container that another node already owns.
 */
import type { Outcome } from '../../base/errors.ts';
import type { TransactionResult } from '../../base/registry.ts';
import type { NodeInstance } from '../state/container-records.ts';
import type { RunningTask } from './task-tracker.ts';
import type { ServingLeases } from '../state/serving-leases.ts';

type Takeover = { readonly from: NodeInstance; readonly modRevision: number };

/** Error codes of a transaction that was surely not executed. */
const notExecuted: readonly string[] = ['NO_QUORUM', 'NOT_LEADER', 'CAPACITY'];

export class PendingTakeovers {
  readonly #leases: ServingLeases;
  /** By full name of the container. */
  readonly #open = new Map<string, Takeover>();

  constructor(leases: ServingLeases) {
    this.#leases = leases;
  }

  onTaskStarted(nowMs: number, { name, task }: RunningTask): void {
    if (task.kind !== 'update' || task.update.previousOwner === undefined || this.#open.has(name)) return;
    const from = task.update.previousOwner;
    this.#open.set(name, { from, modRevision: task.update.container.modRevision });
    this.#leases.blockGrants(nowMs, from.node, from.generation);
  }

  onTaskEnded({ name, task }: RunningTask, outcome: Outcome<TransactionResult>): void {
    if (task.kind !== 'update' || task.update.previousOwner === undefined) return;
    if (outcome.ok) this.#close(name, this.#revokedRevision(name, outcome.value));
    else if (notExecuted.includes(outcome.error.code)) this.#close(name, undefined);
  }

  /** The view shows another revision of the record: a takeover that compares an older one cannot succeed any more. */
  onRecordSeen(container: string, modRevision: number | undefined): void {
    const takeover = this.#open.get(container);
    if (takeover !== undefined && takeover.modRevision !== modRevision) this.#close(container, modRevision);
  }

  clear(): void {
    this.#open.clear();
  }

  /**
   * The revision that took the container away; undefined if none did. A refused transaction returns the record: an
   * earlier attempt with a lost reply may have changed it.
   */
  #revokedRevision(
    container: string,
    { succeeded, revision, results: [found] }: TransactionResult,
  ): number | undefined {
    if (succeeded) return revision;
    const modRevision = found?.kind === 'read' ? found.entries[0]?.modRevision : undefined;
    return modRevision === this.#open.get(container)?.modRevision ? undefined : modRevision;
  }

  #close(container: string, revokedRevision: number | undefined): void {
    const takeover = this.#open.get(container);
    if (takeover === undefined) return;
    this.#open.delete(container);
    this.#leases.unblockGrants(takeover.from.node, takeover.from.generation, revokedRevision);
  }
}
