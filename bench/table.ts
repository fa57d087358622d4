/** Bench: the address table with a million entries: lookup, log replay, memory. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { success } from '../src/base/errors.ts';
import { nodeIdFrom } from '../src/base/ids.ts';
import type { Clock, Files } from '../src/base/ports.ts';
import { Random } from '../src/base/random.ts';
import { encodeTableIndex, tableIndexPath, walPath } from '../src/containers/address-table/wal-files.ts';
import { AddressTableHost } from '../src/containers/address-table/address-table-host.ts';
import { WalWriter, noNodeNumber } from '../src/containers/address-table/wal-record.ts';
import type { PoolRecord } from '../src/placement/state/container-records.ts';
import { type Bench, type BenchRow, compareRow, median, printProgress } from './support/harness.ts';

const entries = 1_000_000;
const nodes = 100;
const lookups = 1_000_000;
const batch = 20_000;
const rounds = 7;
const self = nodeIdFrom(new Uint8Array(16).fill(200));

const record: PoolRecord = {
  ...{ major: 1, minor: 0, module: 'kv', moduleVersion: 0, containers: entries, copies: 2, durability: 'copies' },
  ...{ restart: true, params: null, state: 'active' },
};

export const bench: Bench = () => Promise.resolve({ rows: addressTableRows(), missing: [] });

export function addressTableRows(): readonly BenchRow[] {
  const files = inMemoryFiles();
  const replayed: number[] = [];
  const lookedUp: number[] = [];
  const bytes: number[] = [];
  /** Keeps the tables alive, so that a garbage collection between the readings does not distort the memory. */
  const tables: AddressTableHost[] = [];
  for (let round = 0; round < rounds; round++) {
    const beforeBytes = usedBytes();
    const startMs = performance.now();
    const table = replayedTable(files);
    replayed.push(entries / ((performance.now() - startMs) / 1_000));
    tables.push(table);
    bytes.push((usedBytes() - beforeBytes) / entries);
    lookedUp.push(lookupNs(table));
    printProgress(`table: round ${round + 1} of ${rounds}`);
  }
  const [ns, perSecond, perEntry] = [median(lookedUp), median(replayed), median(bytes)];
  return [
    compareRow('address table, lookup', 'ns', 'less', ns, undefined, () => ({ text: '< 200 ns', met: ns < 200 })),
    compareRow('address table, log replay', 'records/s', 'more', perSecond, undefined, () => ({
      text: '>= 1,000,000/s',
      met: perSecond >= 1_000_000,
    })),
    compareRow('address table, memory per entry', 'bytes', 'less', perEntry),
  ];
}

/** Random lookups, as calls need them. The fastest of many short batches: the cost without interruptions. */
function lookupNs(table: AddressTableHost): number {
  const pool = table.pool('p');
  if (pool === undefined) throw new Error('the pool was not read back');
  const random = new Random('lookups');
  const containers = Uint32Array.from({ length: lookups }, () => random.below(entries));
  let found = 0;
  let fastestMs = Infinity;
  for (let start = 0; start < lookups; start += batch) {
    const startMs = performance.now();
    for (let i = start; i < start + batch; i++) if (table.ownerOf(pool, containers[i]!) !== undefined) found += 1;
    fastestMs = Math.min(fastestMs, performance.now() - startMs);
  }
  if (found !== lookups) throw new Error('not every owner was found');
  return (fastestMs * 1_000_000) / batch;
}

function replayedTable(files: Files): AddressTableHost {
  const clock: Clock = { nowMs: () => 0, wallMs: () => 0, schedule: () => () => {} };
  const registry = { range: () => {}, watch: () => () => {} };
  const onHalt = (error: unknown): never => {
    throw error;
  };
  const table = new AddressTableHost(
    { registry, clock, files, self: { id: self }, emit: () => {}, onHalt },
    { changed: () => {} },
  );
  table.start();
  return table;
}

/** In-memory files with the log of all entries. */
function inMemoryFiles(): Files {
  const ids = Array.from({ length: nodes }, (_, i) => nodeIdFrom(new Uint8Array(16).fill(i)));
  const pools = [{ pool: { name: 'p', record }, revision: 1 }];
  const index = encodeTableIndex({ version: 1, nodes: ids.map((id, number) => [id, number]), pools });
  const writer = new WalWriter(record, 0, entries);
  for (let i = 0; i < entries; i++) writer.add(i, noNodeNumber, i % nodes, i + 2);
  const content = new Map([
    [tableIndexPath(self), index],
    [walPath(record, self), writer.finish()],
  ]);
  const unused = (): never => {
    throw new Error('the bench writes no file');
  };
  return {
    read: (path, done) => done(success(content.get(path))),
    list: (_directory, done) => done(success([])),
    ...{ replace: unused, append: unused, sync: unused, truncate: unused, remove: unused },
  };
}

function usedBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
