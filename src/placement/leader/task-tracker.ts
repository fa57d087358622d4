/**
 * The placer's tasks whose transaction is in flight or not visible in the view yet. Two tasks with the same name never
 * run at once. Counts the containers and replicas that nodes are about to receive.
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
  | { readonly kind: 'update'; readonly update: ContainerUpdate; readonly call: number | undefined }
  | Exclude<PoolTask, { readonly kind: 'roll' }>
  | NodeNumbersTask;

export type RunningTask = { readonly id: number; readonly name: string; readonly task: PlacementTask };

export class TaskTracker {
  readonly #byId = new Map<number, RunningTask>();
  readonly #names = new Set<string>();
  /** Succeeded tasks with their revision, until the view has reached it. */
  readonly #committed = new Map<number, number>();
  readonly receiving = new Map<NodeId, number>();
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

  start(task: PlacementTask): RunningTask {
    const running = { id: this.newId(), name: nameOf(task), task };
    this.#byId.set(running.id, running);
    this.#names.add(running.name);
    this.#count(task, 1);
    return running;
  }

  get(id: number): RunningTask | undefined {
    return this.#committed.has(id) ? undefined : this.#byId.get(id);
  }

  end({ id, name, task }: RunningTask): void {
    if (!this.#byId.delete(id)) return;
    this.#committed.delete(id);
    this.#names.delete(name);
    this.#count(task, -1);
  }

  /** The transaction has succeeded; the task ends when the view shows its revision. */
  commit(running: RunningTask, revision: number): void {
    this.#committed.set(running.id, revision);
  }

  /** Ends and yields the tasks whose revision the view has reached. */
  *endVisible(revision: number): Generator<RunningTask> {
    for (const [id, committedRevision] of this.#committed) {
      const running = this.#byId.get(id);
      if (committedRevision > revision || running === undefined) continue;
      this.end(running);
      yield running;
    }
  }

  clear(): void {
    this.#byId.clear();
    this.#names.clear();
    this.#committed.clear();
    this.receiving.clear();
    this.repairs = 0;
  }

  #count(task: PlacementTask, sign: 1 | -1): void {
    if (task.kind === 'update' && task.update.isRepair) this.repairs += sign;
    for (const node of receiversOf(task)) {
      const count = (this.receiving.get(node) ?? 0) + sign;
      if (count > 0) this.receiving.set(node, count);
      else this.receiving.delete(node);
    }
  }
}

export function placementTransaction(task: PlacementTask, fence: Uint8Array, view: PlacementView): RegistryTransaction {
  switch (task.kind) {
    case 'update':
      return updateContainerTransaction(fence, view, task.update);
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

/** The events to emit when the task has succeeded. */
export function placementEvents(task: PlacementTask): readonly PlacerEvent[] {
  if (task.kind === 'update') return task.update.events;
  if (task.kind === 'deletePool') {
    return [{ kind: 'pool.deleted', pool: task.pool.name, containers: task.pool.record?.containers ?? 0 }];
  }
  if (task.kind !== 'create') return [];
  const pool = task.pool.name;
  const assigned = task.containers.map(({ number: container, record }) => {
    const owner = { pool, container, node: record.owner?.node, from: undefined };
    return { kind: 'container.assigned' as const, ...owner, reason: 'created', needsAttention: false };
  });
  if (!task.isLast) return assigned;
  return [...assigned, { kind: 'pool.created', pool, containers: task.pool.record?.containers ?? 0 }];
}

export function poolTaskKey(pool: string): string {
  return `pool ${pool}`;
}

function nameOf(task: PlacementTask): string {
  if (task.kind === 'update') return task.update.container.fullName;
  return task.kind === 'numbers' ? task.kind : poolTaskKey(task.pool.name);
}

/** A node appears once per container or replica that it receives. */
function receiversOf(task: PlacementTask): readonly NodeId[] {
  if (task.kind === 'update') return task.update.receivers;
  return task.kind === 'create' ? task.containers.flatMap(({ record }) => record.copies) : [];
}
