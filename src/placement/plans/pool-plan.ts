/**
 * The next task of a whole pool: create missing containers, delete containers, or roll them to its module version one
 * by one. Each task is one transaction. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import type { PlacementNode, PlacementPool, PlacementView } from '../state/placement-view.ts';
import type { ContainerRecord, PoolRecord } from '../state/container-records.ts';
import {
  type ContainerUpdate,
  type PlanningContext,
  byLoad,
  replicaLoad,
  nextFence,
  firstFence,
  eligibleNodes,
  currentGeneration,
  hasUncertainNodes,
  ownerLoad,
} from './planning-context.ts';

export type PoolTask =
  | {
      readonly kind: 'create';
      readonly pool: PlacementPool;
      readonly containers: readonly { readonly number: number; readonly record: ContainerRecord }[];
      readonly isLast: boolean;
    }
  | { readonly kind: 'delete'; readonly pool: PlacementPool; readonly numbers: readonly number[] }
  | { readonly kind: 'deletePool'; readonly pool: PlacementPool }
  | { readonly kind: 'roll'; readonly update: ContainerUpdate };

export type NodeNumbersTask = {
  readonly kind: 'numbers';
  readonly numbers: readonly { readonly node: NodeId; readonly number: number }[];
};

const batchMax = 100;
/** Each node adds guards to the transaction, beside those of the containers. */
const batchNodesMax = 24;
const guardsMax = 118;
const numbersMax = 50;

/** `wait`: plan again when a node has changed. */
export function planPool(context: PlanningContext, pool: PlacementPool): PoolTask | 'wait' | undefined {
  if (pool.record === undefined) return undefined;
  if (pool.record.state === 'deleting') return deletion(pool);
  const missing = missingNumbers(pool, pool.record);
  if (missing.length > 0) return creation(context, pool, pool.record, missing);
  return pool.behind.size > 0 ? roll(context, pool, pool.record) : undefined;
}

function missingNumbers(pool: PlacementPool, { containers }: PoolRecord): readonly number[] {
  const exists = (number: number): boolean => pool.containers.has(number) || pool.unreadable.has(number);
  while (pool.missingFrom < containers && exists(pool.missingFrom)) pool.missingFrom += 1;
  const missing: number[] = [];
  for (let number = pool.missingFrom; number < containers && missing.length < batchMax; number++) {
    if (!exists(number)) missing.push(number);
  }
  return missing;
}

/** The least loaded nodes become owners, other nodes replicas. With too few nodes there are fewer replicas for now. */
function creation(
  context: PlanningContext,
  pool: PlacementPool,
  record: PoolRecord,
  missing: readonly number[],
): PoolTask | 'wait' {
  if (hasUncertainNodes(context)) return 'wait';
  const nodes = eligibleNodes(context)
    .toSorted(byLoad((node) => ownerLoad(context, node)))
    .slice(0, batchNodesMax);
  if (nodes.length === 0) return 'wait';
  const numbers = missing.slice(0, guardsMax - 2 - 2 * nodes.length);
  const added = new Map<PlacementNode, { owned: number; replicated: number }>(
    nodes.map((node) => [node, { owned: 0, replicated: 0 }]),
  );
  const owned = (node: PlacementNode): number => ownerLoad(context, node) + (added.get(node)?.owned ?? 0);
  const held = (node: PlacementNode): number =>
    replicaLoad(context, node) + (added.get(node)?.owned ?? 0) + (added.get(node)?.replicated ?? 0);
  const containers = numbers.map((number) => {
    const [owner] = nodes.toSorted(byLoad(owned));
    const others = nodes.filter((node) => node !== owner).toSorted(byLoad(held));
    const copies = [owner as PlacementNode, ...others].slice(0, Math.max(1, record.copies));
    for (const [index, node] of copies.entries()) {
      const count = added.get(node) as { owned: number; replicated: number };
      if (index === 0) count.owned += 1;
      else count.replicated += 1;
    }
    return { number, record: newRecord(context, record, copies) };
  });
  const isLast = pool.containers.size + pool.unreadable.size + containers.length >= record.containers;
  return { kind: 'create', pool, containers, isLast };
}

function newRecord(context: PlanningContext, pool: PoolRecord, copies: readonly PlacementNode[]): ContainerRecord {
  const [first] = copies;
  const owner = { node: (first as PlacementNode).id, generation: currentGeneration(context, first as PlacementNode) };
  return {
    owner,
    fence: firstFence(context),
    opening: 'init',
    phase: 'opening',
    copies: copies.map(({ id }) => id),
    inSync: [owner],
    move: undefined,
    moduleVersion: pool.moduleVersion,
    failures: 0,
    failuresBefore: 0,
    note: '',
  };
}

function deletion(pool: PlacementPool): PoolTask {
  const numbers = [...pool.containers.keys().take(batchMax), ...pool.unreadable].slice(0, batchMax);
  return numbers.length === 0 ? { kind: 'deletePool', pool } : { kind: 'delete', pool, numbers };
}

/** One at a time: it waits while a container opens with the new version, or has failed to. */
function roll(context: PlanningContext, pool: PlacementPool, record: PoolRecord): PoolTask | 'wait' | undefined {
  const { leases, nowMs } = context;
  for (const number of pool.opening) {
    const opening = pool.containers.get(number)?.record;
    if (opening?.moduleVersion !== record.moduleVersion) continue;
    const { owner, failures } = opening;
    const isUnderWay = owner !== undefined && leases.status(nowMs, owner.node, owner.generation) !== 'expired';
    if (failures > 0 || isUnderWay) return 'wait';
  }
  for (const number of pool.behind) {
    const container = pool.containers.get(number);
    const owner = container?.record.owner;
    if (container === undefined || owner === undefined || container.record.phase !== 'serving') continue;
    if (container.record.move !== undefined) continue;
    if (leases.status(nowMs, owner.node, owner.generation) !== 'valid') continue;
    const next: ContainerRecord = {
      ...container.record,
      fence: nextFence(context, container.record.fence),
      opening: 'restart',
      phase: 'opening',
      moduleVersion: record.moduleVersion,
      failures: 0,
      failuresBefore: 0,
      note: `version ${record.moduleVersion} of the module`,
    };
    const update = { container, next, receivers: [], previousOwner: undefined, isRepair: false, events: [] };
    return { kind: 'roll', update };
  }
  return 'wait';
}

/** Numbers for workers that have none. The placer runs one such task at a time, so no number is assigned twice. */
export function planNodeNumbers(view: PlacementView): NodeNumbersTask | undefined {
  const nodes = [...view.nodes.values()].filter(
    ({ number, registered, isWorker }) => number === undefined && registered !== undefined && isWorker,
  );
  if (nodes.length === 0) return undefined;
  const inOrder = nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, numbersMax);
  return {
    kind: 'numbers',
    numbers: inOrder.map(({ id }, index) => ({ node: id, number: view.numberMax + 1 + index })),
  };
}
