/**
 * Transactions under way or not yet visible in the view. Two about the same thing never run at once. Counts what nodes
 * are about to receive.
 */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { RegistryTransaction } from '../../base/registry.ts';
import type { PlacementView } from '../state/placement-view.ts';
import {
  updateContainerTransaction,
  createContainersTransaction,
  deleteContainersTransaction,
  deletePoolTransaction,
  numberNodesTransaction,
} from './placement-transactions.ts';
import type { PlacerEvent } from './placer-types.ts';
import type { NodeNumbersTask, PoolTask } from '../plans/pool-plan.ts';
import type { ContainerUpdate } from '../plans/planning-context.ts';

export type PlacementTask =
  | { readonly kind: 'change'; readonly change: ContainerUpdate; readonly call: number | undefined }
  | Exclude<PoolTask, { readonly kind: 'roll' }>
  | NodeNumbersTask;

export type RunningTask = { readonly id: number; readonly name: string; readonly task: PlacementTask };

export class TaskTracker {
  readonly #byId = new Map<number, RunningTask>();
  readonly #names = new Set<string>();
  /** They happened; by the revision that the view has to reach. */
  readonly #done = new Map<number, number>();
  readonly inFlight = new Map<NodeId, number>();
  repairs = 0;
  #nextId = 1;

  get size(): number {
    return this.#byId.size;
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  all(): Iterable<RunningTask> {
    return this.#byId.values();
  }

  newId(): number {
    return this.#nextId++;
  }

  begin(task: PlacementTask): RunningTask {
    const run = { id: this.newId(), name: nameOf(task), task };
    this.#byId.set(run.id, run);
    this.#names.add(run.name);
    this.#count(task, 1);
    return run;
  }

  get(id: number): RunningTask | undefined {
    return this.#done.has(id) ? undefined : this.#byId.get(id);
  }

  end({ id, name, task }: RunningTask): void {
    if (!this.#byId.delete(id)) return;
    this.#done.delete(id);
    this.#names.delete(name);
    this.#count(task, -1);
  }

  /** It has happened; it ends when the view shows it. */
  committed(run: RunningTask, revision: number): void {
    this.#done.set(run.id, revision);
  }

  /** Ends what the view shows by now. */
  *visibleIn(revision: number): Generator<RunningTask> {
    for (const [id, doneRevision] of this.#done) {
      const run = this.#byId.get(id);
      if (doneRevision > revision || run === undefined) continue;
      this.end(run);
      yield run;
    }
  }

  clear(): void {
    this.#byId.clear();
    this.#names.clear();
    this.#done.clear();
    this.inFlight.clear();
    this.repairs = 0;
  }

  #count(task: PlacementTask, sign: 1 | -1): void {
    if (task.kind === 'change' && task.change.isRepair) this.repairs += sign;
    for (const node of givenBy(task)) {
      const count = (this.inFlight.get(node) ?? 0) + sign;
      if (count > 0) this.inFlight.set(node, count);
      else this.inFlight.delete(node);
    }
  }
}

export function placementTransaction(task: PlacementTask, fence: Uint8Array, view: PlacementView): RegistryTransaction {
  switch (task.kind) {
    case 'change':
      return updateContainerTransaction(fence, view, task.change);
    case 'create':
      return createContainersTransaction(fence, view, task);
    case 'delete':
      return deleteContainersTransaction(fence, task.pool, task.numbers);
    case 'deletePool':
      return deletePoolTransaction(fence, task.pool);
    case 'numbers':
      return numberNodesTransaction(fence, task);
    default:
      return unreachable(task);
  }
}

/** What there is to tell when it has happened. */
export function placementEvents(task: PlacementTask): readonly PlacerEvent[] {
  if (task.kind === 'change') return task.change.events;
  if (task.kind === 'deletePool') {
    return [{ kind: 'pool.deleted', pool: task.pool.name, containers: task.pool.record?.containers ?? 0 }];
  }
  if (task.kind !== 'create') return [];
  const pool = task.pool.name;
  const assigned = task.containers.map(({ number: container, record }) => {
    const about = {
      pool,
      container,
      node: record.owner?.node,
      from: undefined,
      reason: 'created',
      needsAttention: false,
    };
    return { kind: 'container.assigned' as const, ...about };
  });
  if (!task.isLast) return assigned;
  return [...assigned, { kind: 'pool.created', pool, containers: task.pool.record?.containers ?? 0 }];
}

export function poolTaskKey(pool: string): string {
  return `pool ${pool}`;
}

function nameOf(task: PlacementTask): string {
  if (task.kind === 'change') return task.change.placed.fullName;
  return task.kind === 'numbers' ? task.kind : poolTaskKey(task.pool.name);
}

/** As often as it gets something. */
function givenBy(task: PlacementTask): readonly NodeId[] {
  if (task.kind === 'change') return task.change.receivers;
  return task.kind === 'create' ? task.containers.flatMap(({ record }) => record.copies) : [];
}
