/** Makes of a plan what has to be on the disk before its first step is taken. */
import type { KnownPool } from '../contract.ts';
import { encodeTableIndex } from './wal-files.ts';
import type { TableWalGroup, PoolWalWrite } from './table-wal.ts';
import type { TableMemory } from './table-memory.ts';
import type { ContainerUpdateStep, TableUpdate } from './table-update.ts';
import { WalWriter, noNodeNumber } from './wal-record.ts';

export function walGroupOf(plan: TableUpdate, memory: TableMemory, wallMs: number): TableWalGroup {
  const { nodes } = memory;
  const pools = plan.pools();
  const index = plan.isIndexNew
    ? encodeTableIndex({ version: plan.version, nodes: nodes.numbered(), pools })
    : undefined;
  const steps = newSteps(plan);
  const writes: PoolWalWrite[] = [];
  for (const { pool } of pools) {
    const added = steps.get(pool.record.major) ?? [];
    if (added.length === 0 && !plan.areNumbersChanged) continue;
    writes.push({
      pool: pool.record,
      live: (memory.poolByNumber(pool.record.major)?.live ?? 0) + added.length,
      added: addedRecords(memory, pool, added, wallMs),
      whole: () => wholeRecords(plan, memory, pool, wallMs),
    });
  }
  return { index, pools: writes };
}

/** By the number of the pool; those of pools that will be gone are not asked for. */
function newSteps(plan: TableUpdate): ReadonlyMap<number, readonly ContainerUpdateStep[]> {
  const byPool = new Map<number, ContainerUpdateStep[]>();
  for (const step of plan.steps) {
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

function wholeRecords(plan: TableUpdate, memory: TableMemory, pool: KnownPool, wallMs: number): Uint8Array {
  const { nodes } = memory;
  const writer = new WalWriter(pool.record, wallMs, memory.poolByNumber(pool.record.major)?.live ?? 0);
  plan.entriesOf(pool.name, (container, { owner, version }) => {
    writer.add(container, noNodeNumber, nodes.numberAt(owner), version);
  });
  return writer.finish();
}
