/**
 * Pools and containers as the CLI and the HTTP API show them: names instead of node ids, null for missing values. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ClusterView } from '../state/cluster-view.ts';
import type { ContainerMove, ContainerRecord, PoolDurability, PoolRecord } from '../state/container-records.ts';

export type ContainerView = {
  readonly id: number;
  readonly owner: string | null;
  /** Nodes that hold its state or are to hold it, the owner first. */
  readonly copies: readonly string[];
  /** Nodes that have every acknowledged write. */
  readonly inSync: readonly string[];
  /** Version of its entry in address tables; 0 until the leader has created it. */
  readonly version: number;
  readonly fence: string;
  readonly phase: ContainerRecord['phase'];
  readonly move: (Omit<ContainerMove, 'to'> & { readonly to: string }) | null;
  readonly moduleVersion: number;
  readonly failures: number;
  readonly note: string;
};

/** The specification and state of a pool. */
export type PoolDescription = {
  readonly name: string;
  /** `major.minor`, as in the file names of its address tables. */
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

/** How many containers are served, and how many have as many replicas in sync as the pool wants. */
export type PoolCounts = { readonly serving: number; readonly inSync: number };

/** A pool in a list. */
export type PoolRow = PoolDescription & PoolCounts;

export type PoolDetails = Omit<PoolRow, 'containers'> & {
  readonly containers: readonly ContainerView[];
  readonly containerCount: number;
  /** The pool has containers beyond the requested page. */
  readonly more: boolean;
};

/** A record as found in the registry; undefined if it is malformed. */
export type ContainerLookup = { readonly record: ContainerRecord | undefined; readonly version: number };

export function nodeNameIn(view: ClusterView, id: NodeId): string {
  return view.nodes.get(id)?.name ?? id;
}

export function containerView(view: ClusterView, id: number, found: ContainerLookup | undefined): ContainerView {
  const record = found?.record;
  if (record === undefined) {
    const note = found === undefined ? 'the leader has not created it yet' : 'its record cannot be read';
    return { ...emptyView, id, version: found?.version ?? 0, note };
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

const emptyView = {
  ...({ owner: null, copies: [], inSync: [], fence: '0' } as const),
  ...({ phase: 'opening', move: null, moduleVersion: 0, failures: 0 } as const),
};

function countsOf(pool: PoolRecord, containers: Iterable<ContainerLookup>): PoolCounts {
  let [serving, inSync] = [0, 0];
  for (const { record } of containers) {
    if (record?.owner !== undefined && record.phase === 'serving') serving += 1;
    if (record !== undefined && record.inSync.length >= pool.copies) inSync += 1;
  }
  return { serving, inSync };
}

export function poolRow(name: string, pool: PoolRecord, containers: Iterable<ContainerLookup>): PoolRow {
  return { ...describePool(name, pool), ...countsOf(pool, containers) };
}

export function describePool(name: string, { major, minor, ...pool }: PoolRecord): PoolDescription {
  return { name, id: `${major}.${minor}`, ...pool };
}
