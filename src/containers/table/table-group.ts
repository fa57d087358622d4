/** Makes of a plan what has to be on the disk before its first step is taken. */
import type { KnownPool } from '../contract.ts';
import { encodeIndex } from './table-files.ts';
import type { LogGroup, PoolWrite } from './table-log.ts';
import type { TableMemory } from './table-memory.ts';
import type { ContainerStep, TablePlan } from './table-plan.ts';
import { WalWriter, noNode } from './wal-record.ts';

export function logGroup(plan: TablePlan, memory: TableMemory, wallMs: number): LogGroup {
  const { book } = memory;
  const pools = plan.pools();
  const index = plan.isIndexNew ? encodeIndex({ version: plan.version, nodes: book.numbered(), pools }) : undefined;
  const steps = newSteps(plan);
  const writes: PoolWrite[] = [];
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
function newSteps(plan: TablePlan): ReadonlyMap<number, readonly ContainerStep[]> {
  const byPool = new Map<number, ContainerStep[]>();
  for (const step of plan.steps) {
    if (step.kind !== 'container' || !step.isNew) continue;
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
  steps: readonly ContainerStep[],
  wallMs: number,
): Uint8Array {
  const { book } = memory;
  const writer = new WalWriter(pool.record, wallMs, steps.length);
  for (const { change, oldOwner, owner, version } of steps) {
    writer.add(change.container, book.numberAt(oldOwner), book.numberAt(owner), version);
  }
  return writer.finish();
}

function wholeRecords(plan: TablePlan, memory: TableMemory, pool: KnownPool, wallMs: number): Uint8Array {
  const { book } = memory;
  const writer = new WalWriter(pool.record, wallMs, memory.poolByNumber(pool.record.major)?.live ?? 0);
  plan.entriesOf(pool.name, (container, { owner, version }) => {
    writer.add(container, noNode, book.numberAt(owner), version);
  });
  return writer.finish();
}
