/**
 * Every change of the placer to pools, containers and node numbers, as one guarded transaction each. The guards compare
 * all records that the change rests on, and the fence of the leader at `/cluster/container-placer`.
 */
import type { NodeId } from '../../base/ids.ts';
import { type RegistryCompare, type RegistryOp, type RegistryTransaction, onlyKey } from '../../base/registry.ts';
import { clusterKey, keyRanges } from '../../registry/cluster-keys.ts';
import type { PlacementPool, PlacementView } from '../state/placement-view.ts';
import type { NodeNumbersTask, PoolTask } from '../plans/pool-plan.ts';
import { encodeContainer, encodePoolName, encodeNodeNumber } from '../state/container-records.ts';
import type { ContainerUpdate } from '../plans/planning-context.ts';

const placerKey = clusterKey({ kind: 'placer' });

/** Writes the fence that all later transactions of this leader compare. */
export function claimPlacer(fence: Uint8Array, seenRevision: number): RegistryTransaction {
  return guarded([unchanged(placerKey, seenRevision)], [put(placerKey, fence)]);
}

export function updateContainerTransaction(
  fence: Uint8Array,
  view: PlacementView,
  update: ContainerUpdate,
): RegistryTransaction {
  const { container, next, receivers } = update;
  const key = containerKey(container.pool, container.number);
  const compare = [leads(fence), unchanged(key, container.modRevision), ...unchangedNodes(view, receivers)];
  // A refused leader learns the present record.
  const otherwise = [{ kind: 'read', range: onlyKey(key), limit: 1 }] as const;
  return { compare, then: [put(key, encodeContainer(next))], otherwise };
}

export function createContainersTransaction(
  fence: Uint8Array,
  view: PlacementView,
  { pool, containers }: Extract<PoolTask, { readonly kind: 'create' }>,
): RegistryTransaction {
  const receivers = containers.flatMap(({ record }) => record.copies);
  const keys = containers.map(({ number }) => containerKey(pool.name, number));
  return guarded(
    [leads(fence), unchangedPool(pool), ...keys.map((key) => unchanged(key, 0)), ...unchangedNodes(view, receivers)],
    containers.map(({ number, record }) => put(containerKey(pool.name, number), encodeContainer(record))),
  );
}

/** Does not compare the records of the containers: whatever their owners have written, the pool is deleted. */
export function deleteContainersTransaction(
  fence: Uint8Array,
  pool: PlacementPool,
  numbers: readonly number[],
): RegistryTransaction {
  return guarded(
    [leads(fence), unchangedPool(pool)],
    numbers.map((number) => remove(containerKey(pool.name, number))),
  );
}

/** Also writes the last deletion: a reader that lists everything later still finds an entry of this revision. */
export function deletePoolTransaction(
  fence: Uint8Array,
  pool: Pick<PlacementPool, 'name' | 'modRevision'>,
): RegistryTransaction {
  return guarded(
    [leads(fence), unchangedPool(pool)],
    [
      { kind: 'delete', range: keyRanges.containersOf(pool.name) },
      remove(clusterKey({ kind: 'pool', pool: pool.name })),
      put(clusterKey({ kind: 'lastDeletion' }), encodePoolName(pool.name)),
    ],
  );
}

export function numberNodesTransaction(fence: Uint8Array, { numbers }: NodeNumbersTask): RegistryTransaction {
  const keys = numbers.map(({ node }) => clusterKey({ kind: 'containerNode', node }));
  return guarded(
    [leads(fence), ...keys.map((key) => unchanged(key, 0))],
    numbers.map(({ number, node }) => put(clusterKey({ kind: 'containerNode', node }), encodeNodeNumber(number))),
  );
}

function containerKey(pool: string, number: number): string {
  return clusterKey({ kind: 'container', pool, container: String(number) });
}

/** Compares registration and state of each receiver, once per node. */
function unchangedNodes(view: PlacementView, receivers: readonly NodeId[]): readonly RegistryCompare[] {
  return [...new Set(receivers)].flatMap((id) => {
    const node = view.nodes.get(id);
    const registration = clusterKey({ kind: 'registration', node: id });
    return [
      { key: registration, target: 'createRevision', is: 'equal', than: node?.registered ?? 0 },
      unchanged(clusterKey({ kind: 'state', node: id }), node?.stateRevision ?? 0),
    ];
  });
}

function unchangedPool({ name, modRevision }: Pick<PlacementPool, 'name' | 'modRevision'>): RegistryCompare {
  return unchanged(clusterKey({ kind: 'pool', pool: name }), modRevision);
}

function guarded(compare: readonly RegistryCompare[], then: readonly RegistryOp[]): RegistryTransaction {
  return { compare, then, otherwise: [] };
}

function leads(fence: Uint8Array): RegistryCompare {
  return { key: placerKey, target: 'value', is: 'equal', than: fence };
}

/** `modRevision` 0: the key does not exist. */
function unchanged(key: string, modRevision: number): RegistryCompare {
  return { key, target: 'modRevision', is: 'equal', than: modRevision };
}

function put(key: string, value: Uint8Array): RegistryOp {
  return { kind: 'put', key, value };
}

function remove(key: string): RegistryOp {
  return { kind: 'delete', range: onlyKey(key) };
}
