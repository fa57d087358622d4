/**
 * The transactions of the placer that are under way, or have happened and are not to be seen in the view yet. Two that
 * are about the same thing never run at the same time, and until both the answer and the view are there nothing is
 * decided about that thing again. It counts what nodes are about to be given.
 */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { RegistryTransaction } from '../../base/registry.ts';
import type { PlacementView } from './placement-view.ts';
import {
  changeContainer,
  createContainers,
  deleteContainers,
  deletePool,
  numberNodes,
} from './placement-transactions.ts';
import type { PlacerEvent } from './placer-event.ts';
import type { NumbersTask, PoolTask } from './pool-plan.ts';
import type { Change } from './situation.ts';

export type Task =
  | { readonly kind: 'change'; readonly change: Change; readonly call: number | undefined }
  | Exclude<PoolTask, { readonly kind: 'roll' }>
  | NumbersTask;

export type Run = { readonly id: number; readonly name: string; readonly task: Task };

export class Runs {
  readonly #byId = new Map<number, Run>();
  readonly #names = new Set<string>();
  /** They happened; by the revision that the view has to reach. */
  readonly #done = new Map<number, number>();
  readonly onTheWay = new Map<NodeId, number>();
  repairs = 0;
  #nextId = 1;

  get size(): number {
    return this.#byId.size;
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  all(): Iterable<Run> {
    return this.#byId.values();
  }

  newId(): number {
    return this.#nextId++;
  }

  begin(task: Task): Run {
    const run = { id: this.newId(), name: nameOf(task), task };
    this.#byId.set(run.id, run);
    this.#names.add(run.name);
    this.#count(task, 1);
    return run;
  }

  get(id: number): Run | undefined {
    return this.#done.has(id) ? undefined : this.#byId.get(id);
  }

  end({ id, name, task }: Run): void {
    if (!this.#byId.delete(id)) return;
    this.#done.delete(id);
    this.#names.delete(name);
    this.#count(task, -1);
  }

  /** It has happened; it ends when the view shows it. */
  happened(run: Run, revision: number): void {
    this.#done.set(run.id, revision);
  }

  /** Ends what the view shows by now. */
  *shown(revision: number): Generator<Run> {
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
    this.onTheWay.clear();
    this.repairs = 0;
  }

  #count(task: Task, sign: 1 | -1): void {
    if (task.kind === 'change' && task.change.isRepair) this.repairs += sign;
    for (const node of givenBy(task)) {
      const count = (this.onTheWay.get(node) ?? 0) + sign;
      if (count > 0) this.onTheWay.set(node, count);
      else this.onTheWay.delete(node);
    }
  }
}

export function transactionOf(task: Task, fence: Uint8Array, view: PlacementView): RegistryTransaction {
  switch (task.kind) {
    case 'change':
      return changeContainer(fence, view, task.change);
    case 'create':
      return createContainers(fence, view, task);
    case 'delete':
      return deleteContainers(fence, task.pool, task.numbers);
    case 'deletePool':
      return deletePool(fence, task.pool);
    case 'numbers':
      return numberNodes(fence, task);
    default:
      return unreachable(task);
  }
}

/** What there is to tell when it has happened. */
export function eventsOf(task: Task): readonly PlacerEvent[] {
  if (task.kind === 'change') return task.change.events;
  if (task.kind === 'deletePool') {
    return [{ kind: 'pool.deleted', pool: task.pool.name, containers: task.pool.record?.containers ?? 0 }];
  }
  if (task.kind !== 'create') return [];
  const pool = task.pool.name;
  const assigned = task.containers.map(({ number: container, record }) => {
    const about = { pool, container, node: record.owner?.node, from: undefined, reason: 'created', alarm: false };
    return { kind: 'container.assigned' as const, ...about };
  });
  if (!task.isLast) return assigned;
  return [...assigned, { kind: 'pool.created', pool, containers: task.pool.record?.containers ?? 0 }];
}

export function poolName(pool: string): string {
  return `pool ${pool}`;
}

function nameOf(task: Task): string {
  if (task.kind === 'change') return task.change.placed.text;
  return task.kind === 'numbers' ? task.kind : poolName(task.pool.name);
}

/** As often as it gets something. */
function givenBy(task: Task): readonly NodeId[] {
  if (task.kind === 'change') return task.change.given;
  return task.kind === 'create' ? task.containers.flatMap(({ record }) => record.copies) : [];
}
