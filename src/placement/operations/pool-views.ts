/** Pools and containers as people and scripts see them: names for node ids, null for what is missing. Pure. */
import type { NodeId } from '../../base/ids.ts';
import type { ClusterView } from '../state/cluster-view.ts';
import type { ContainerMove, ContainerRecord, PoolDurability, PoolRecord } from '../state/container-records.ts';

export type ContainerView = {
  readonly id: number;
  readonly owner: string | null;
  /** Who is to hold its state, the owner first; who has every acknowledged write. */
  readonly copies: readonly string[];
  readonly inSync: readonly string[];
  /** Of its entry in address tables; 0 while the leader has not created it. */
  readonly version: number;
  readonly fence: string;
  readonly phase: ContainerRecord['phase'];
  readonly move: (Omit<ContainerMove, 'to'> & { readonly to: string }) | null;
  readonly moduleVersion: number;
  readonly failures: number;
  readonly note: string;
};

/** What a pool is. */
export type PoolDescription = {
  readonly name: string;
  /** `major.minor`, as in the names of the files of its address tables. */
  readonly id: string;
  readonly module: string;
  readonly moduleVersion: number;
  readonly containers: number;
  readonly copies: number;
  readonly durability: PoolDurability;
  readonly restart: boolean;
  readonly params: unknown;
  readonly state: PoolRecord['state'];
};

/** How many of its containers are open, and how many have as many copies in sync as the pool wants. */
export type PoolCounts = { readonly serving: number; readonly inSync: number };

/** One pool in a list. */
export type PoolRow = PoolDescription & PoolCounts;

export type PoolDetails = Omit<PoolRow, 'containers'> & {
  readonly containers: readonly ContainerView[];
  readonly containerCount: number;
  /** There are further containers than those that were asked for. */
  readonly more: boolean;
};

/** Undefined: the record cannot be read. */
export type ContainerLookup = { readonly record: ContainerRecord | undefined; readonly version: number };

export function nodeNameIn(view: ClusterView, id: NodeId): string {
  return view.nodes.get(id)?.name ?? id;
}

export function containerView(view: ClusterView, id: number, found: ContainerLookup | undefined): ContainerView {
  const record = found?.record;
  if (record === undefined) {
    const note = found === undefined ? 'the leader has not created it yet' : 'its record cannot be read';
    return { ...nothing, id, version: found?.version ?? 0, note };
  }
  const { owner, copies, inSync, fence, phase, move, moduleVersion, failures, note } = record;
  return {
    id,
    owner: owner === undefined ? null : nodeNameIn(view, owner.node),
    copies: copies.map((node) => nodeNameIn(view, node)),
    inSync: inSync.map(({ node }) => nodeNameIn(view, node)),
    version: found?.version ?? 0,
    fence: String(fence),
    phase,
    move: move === undefined ? null : { ...move, to: nodeNameIn(view, move.to) },
    moduleVersion,
    failures,
    note,
  };
}

const nothing = {
  ...({ owner: null, copies: [], inSync: [], fence: '0' } as const),
  ...({ phase: 'opening', move: null, moduleVersion: 0, failures: 0 } as const),
};

function tallyOf(pool: PoolRecord, containers: Iterable<ContainerLookup>): PoolCounts {
  let [serving, inSync] = [0, 0];
  for (const { record } of containers) {
    if (record?.owner !== undefined && record.phase === 'serving') serving += 1;
    if (record !== undefined && record.inSync.length >= pool.copies) inSync += 1;
  }
  return { serving, inSync };
}

export function poolRow(name: string, pool: PoolRecord, containers: Iterable<ContainerLookup>): PoolRow {
  return { ...describePool(name, pool), ...tallyOf(pool, containers) };
}

export function describePool(name: string, { major, minor, ...pool }: PoolRecord): PoolDescription {
  return { name, id: `${major}.${minor}`, ...pool };
}
