/** Builds the WAL writes of a table update, which must be durable before its first step is applied. */
import type { KnownPool } from '../contract.ts';
import { encodeTableIndex } from './wal-files.ts';
import type { TableWalGroup, PoolWalWrite } from './table-wal.ts';
import type { TableMemory } from './table-memory.ts';
import type { ContainerUpdateStep, TableUpdate } from './table-update.ts';
import { WalWriter, noNodeNumber } from './wal-record.ts';

export function walGroupOf(update: TableUpdate, memory: TableMemory, wallMs: number): TableWalGroup {
  const { nodes } = memory;
  const pools = update.pools();
  const index = update.isIndexStale
    ? encodeTableIndex({ version: update.version, nodes: nodes.numbered(), pools })
    : undefined;
  const steps = newSteps(update);
  const writes: PoolWalWrite[] = [];
  for (const { pool } of pools) {
    const added = steps.get(pool.record.major) ?? [];
    if (added.length === 0 && !update.areNodeNumbersChanged) continue;
    writes.push({
      pool: pool.record,
      live: (memory.poolByNumber(pool.record.major)?.live ?? 0) + added.length,
      added: addedRecords(memory, pool, added, wallMs),
      allRecords: () => allRecordsOf(update, memory, pool, wallMs),
    });
  }
  return { index, pools: writes };
}

/** The steps to log, by pool number. Pools that the update deletes are not logged. */
function newSteps(update: TableUpdate): ReadonlyMap<number, readonly ContainerUpdateStep[]> {
  const byPool = new Map<number, ContainerUpdateStep[]>();
  for (const step of update.steps) {
    if (step.kind !== 'container' || !step.isDirty) continue;
    const { major } = step.change.pool.record;
    const steps = byPool.get(major);
    if (steps === undefined) byPool.set(major, [step]);
    else steps.push(step);
  }
  return byPool;
}

function addedRecords(
  memory: TableMemory,
  pool: KnownPool,
  steps: readonly ContainerUpdateStep[],
  wallMs: number,
): Uint8Array {
  const { nodes } = memory;
  const writer = new WalWriter(pool.record, wallMs, steps.length);
  for (const { change, oldOwner, owner, version } of steps) {
    writer.add(change.container, nodes.numberAt(oldOwner), nodes.numberAt(owner), version);
  }
  return writer.finish();
}

function allRecordsOf(update: TableUpdate, memory: TableMemory, pool: KnownPool, wallMs: number): Uint8Array {
  const { nodes } = memory;
  const writer = new WalWriter(pool.record, wallMs, memory.poolByNumber(pool.record.major)?.live ?? 0);
  update.entriesOf(pool.name, (container, { owner, version }) => {
    writer.add(container, noNodeNumber, nodes.numberAt(owner), version);
  });
  return writer.finish();
}
