/**
 * Notices when a node can do more than before, or less: it is registered, active, live, in another life, or no longer.
 * Then everything that it holds is to be looked at, and everything that waits for nodes. Nobody else looks at all nodes.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Agenda } from './agenda.ts';
import type { PlacedNode, PlacementView } from './placement-view.ts';
import type { ServingLeases } from './serving-leases.ts';

export class NodeWatch {
  readonly #leases: ServingLeases;
  readonly #known = new Map<NodeId, string>();
  /** When somebody's lease ends if nothing is heard. */
  #nextMs = -Infinity;
  /** Every worker has its number. */
  areNumbered = false;

  constructor(leases: ServingLeases) {
    this.#leases = leases;
  }

  get nextMs(): number {
    return this.#nextMs;
  }

  clear(): void {
    this.#known.clear();
    this.#nextMs = -Infinity;
    this.areNumbered = false;
  }

  /** Something was heard of it. */
  check(nowMs: number, view: PlacementView | undefined, id: NodeId, agenda: Agenda): void {
    const node = view?.nodes.get(id);
    if (node === undefined) this.#known.delete(id);
    else this.#nextMs = Math.min(this.#nextMs, this.#check(nowMs, node, agenda));
  }

  /** Costs nothing until the time of somebody has come. */
  checkAll(nowMs: number, view: PlacementView, agenda: Agenda): void {
    if (nowMs < this.#nextMs) return;
    this.#nextMs = Infinity;
    for (const node of view.nodes.values()) this.#nextMs = Math.min(this.#nextMs, this.#check(nowMs, node, agenda));
  }

  #check(nowMs: number, node: PlacedNode, agenda: Agenda): number {
    if (node.registered !== undefined) this.#leases.seen(nowMs, node.id, node.generation);
    const generation = Math.max(node.generation, this.#leases.generationOf(node.id) ?? 0);
    const standing = this.#leases.standing(nowMs, node.id, generation);
    const now = `${generation} ${standing} ${node.registered} ${node.mode} ${node.stateRevision} ${node.works}`;
    if (this.#known.get(node.id) !== now) {
      this.#known.set(node.id, now);
      for (const text of node.owned) agenda.lookAt(text);
      for (const text of node.copied) agenda.lookAt(text);
      agenda.nodesChanged();
    }
    return this.#leases.nextChangeMs(nowMs, node.id, generation) ?? Infinity;
  }
}
