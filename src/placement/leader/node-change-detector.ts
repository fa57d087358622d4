/**
 * Detects changes of the lease status, registration or mode of a node, and enqueues the containers that depend on it.
 * The only place that scans all nodes, and only when a lease status can have changed.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ReconcileQueue } from './reconcile-queue.ts';
import type { PlacementNode, PlacementView } from '../state/placement-view.ts';
import type { ServingLeases } from '../state/serving-leases.ts';

export class NodeChangeDetector {
  readonly #leases: ServingLeases;
  readonly #fingerprints = new Map<NodeId, string>();
  /** When the first lease status changes without a renewal. */
  #nextMs = -Infinity;
  /** Every worker has a number for address tables. */
  allNumbered = false;

  constructor(leases: ServingLeases) {
    this.#leases = leases;
  }

  get nextMs(): number {
    return this.#nextMs;
  }

  clear(): void {
    this.#fingerprints.clear();
    this.#nextMs = -Infinity;
    this.allNumbered = false;
  }

  /** Checks one node, after a change of its records or of its lease. */
  check(nowMs: number, view: PlacementView | undefined, id: NodeId, queue: ReconcileQueue): void {
    const node = view?.nodes.get(id);
    if (node === undefined) this.#fingerprints.delete(id);
    else this.#nextMs = Math.min(this.#nextMs, this.#check(nowMs, node, queue));
  }

  /** Free of cost until the first lease status can have changed. */
  checkAll(nowMs: number, view: PlacementView, queue: ReconcileQueue): void {
    if (nowMs < this.#nextMs) return;
    this.#nextMs = Infinity;
    for (const node of view.nodes.values()) this.#nextMs = Math.min(this.#nextMs, this.#check(nowMs, node, queue));
  }

  #check(nowMs: number, node: PlacementNode, queue: ReconcileQueue): number {
    const { id, registered, mode, stateRevision, stoppingGeneration, isWorker } = node;
    if (registered !== undefined) this.#leases.onGenerationSeen(nowMs, id, node.generation);
    const generation = Math.max(node.generation, this.#leases.generationOf(id) ?? 0);
    const leaseStatus = this.#leases.status(nowMs, id, generation);
    const fingerprint = `${generation} ${leaseStatus} ${registered} ${mode} ${stateRevision} ${stoppingGeneration} ${isWorker}`;
    if (this.#fingerprints.get(id) !== fingerprint) {
      this.#fingerprints.set(id, fingerprint);
      for (const container of node.owned) queue.enqueue(container);
      for (const container of node.replicated) queue.enqueue(container);
      queue.unblockAll();
    }
    return this.#leases.nextChangeMs(nowMs, id, generation) ?? Infinity;
  }
}
