/**
 * Pools and containers as people and scripts see them: nodes by their names as long as they are registered, what is
 * missing as null, fences and versions as they are compared. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ClusterView } from '../assignment/cluster-view.ts';
import type { ContainerMove, ContainerRecord, Durability, PoolRecord } from './records.ts';

export type ContainerShown = {
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
export type PoolFacts = {
  readonly name: string;
  /** `major.minor`, as in the names of the files of its address tables. */
  readonly id: string;
  readonly module: string;
  readonly moduleVersion: number;
  readonly containers: number;
  readonly copies: number;
  readonly durability: Durability;
  readonly restart: boolean;
  readonly params: unknown;
  readonly state: PoolRecord['state'];
};

/** How many of its containers are open, and how many have as many copies in sync as the pool wants. */
export type PoolTally = { readonly serving: number; readonly inSync: number };

/** One pool in a list. */
export type PoolRow = PoolFacts & PoolTally;

export type PoolShown = Omit<PoolRow, 'containers'> & {
  readonly containers: readonly ContainerShown[];
  readonly containerCount: number;
  /** There are further containers than those that were asked for. */
  readonly more: boolean;
};

/** Undefined: the record cannot be read. */
export type FoundContainer = { readonly record: ContainerRecord | undefined; readonly version: number };

export function nameIn(view: ClusterView, id: NodeId): string {
  return view.nodes.get(id)?.name ?? id;
}

export function containerShown(view: ClusterView, id: number, found: FoundContainer | undefined): ContainerShown {
  const record = found?.record;
  if (record === undefined) {
    const note = found === undefined ? 'the leader has not created it yet' : 'its record cannot be read';
    return { ...nothing, id, version: found?.version ?? 0, note };
  }
  const { owner, copies, inSync, fence, phase, move, moduleVersion, failures, note } = record;
  return {
    id,
    owner: owner === undefined ? null : nameIn(view, owner.node),
    copies: copies.map((node) => nameIn(view, node)),
    inSync: inSync.map(({ node }) => nameIn(view, node)),
    version: found?.version ?? 0,
    fence: String(fence),
    phase,
    move: move === undefined ? null : { ...move, to: nameIn(view, move.to) },
    moduleVersion,
    failures,
    note,
  };
}

const nothing = {
  ...({ owner: null, copies: [], inSync: [], fence: '0' } as const),
  ...({ phase: 'opening', move: null, moduleVersion: 0, failures: 0 } as const),
};

function tallyOf(pool: PoolRecord, containers: Iterable<FoundContainer>): PoolTally {
  let [serving, inSync] = [0, 0];
  for (const { record } of containers) {
    if (record?.owner !== undefined && record.phase === 'serving') serving += 1;
    if (record !== undefined && record.inSync.length >= pool.copies) inSync += 1;
  }
  return { serving, inSync };
}

export function poolRow(name: string, pool: PoolRecord, containers: Iterable<FoundContainer>): PoolRow {
  return { ...poolFacts(name, pool), ...tallyOf(pool, containers) };
}

export function poolFacts(name: string, { major, minor, ...pool }: PoolRecord): PoolFacts {
  return { name, id: `${major}.${minor}`, ...pool };
}
