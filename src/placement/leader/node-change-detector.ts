/**
 * Detects that a node can do more or less than before and enqueues what depends on it. The only place that scans all
 * nodes.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ReconcileQueue } from './reconcile-queue.ts';
import type { PlacementNode, PlacementView } from '../state/placement-view.ts';
import type { ServingLeases } from '../state/serving-leases.ts';

export class NodeChangeDetector {
  readonly #leases: ServingLeases;
  readonly #known = new Map<NodeId, string>();
  /** When somebody's lease ends if nothing is heard. */
  #nextMs = -Infinity;
  /** Every worker has its number. */
  allNumbered = false;

  constructor(leases: ServingLeases) {
    this.#leases = leases;
  }

  get nextMs(): number {
    return this.#nextMs;
  }

  clear(): void {
    this.#known.clear();
    this.#nextMs = -Infinity;
    this.allNumbered = false;
  }

  /** Something was heard of it. */
  check(nowMs: number, view: PlacementView | undefined, id: NodeId, agenda: ReconcileQueue): void {
    const node = view?.nodes.get(id);
    if (node === undefined) this.#known.delete(id);
    else this.#nextMs = Math.min(this.#nextMs, this.#check(nowMs, node, agenda));
  }

  /** Costs nothing until the time of somebody has come. */
  checkAll(nowMs: number, view: PlacementView, agenda: ReconcileQueue): void {
    if (nowMs < this.#nextMs) return;
    this.#nextMs = Infinity;
    for (const node of view.nodes.values()) this.#nextMs = Math.min(this.#nextMs, this.#check(nowMs, node, agenda));
  }

  #check(nowMs: number, node: PlacementNode, agenda: ReconcileQueue): number {
    if (node.registered !== undefined) this.#leases.lifeSeen(nowMs, node.id, node.generation);
    const generation = Math.max(node.generation, this.#leases.generationOf(node.id) ?? 0);
    const standing = this.#leases.status(nowMs, node.id, generation);
    const now = `${generation} ${standing} ${node.registered} ${node.mode} ${node.stateRevision} ${node.isWorker}`;
    if (this.#known.get(node.id) !== now) {
      this.#known.set(node.id, now);
      for (const text of node.owned) agenda.enqueue(text);
      for (const text of node.replicated) agenda.enqueue(text);
      agenda.nodesChanged();
    }
    return this.#leases.nextChangeMs(nowMs, node.id, generation) ?? Infinity;
  }
}
