/**
 * Fills the table from disk at start, as a routing cache. Truncates a torn log and removes a damaged one; the registry
 * restores what is missing.
 */
import { type Outcome, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Files } from '../../base/ports.ts';
import { noOwner } from './node-index.ts';
import type { PoolTable } from './pool-table.ts';
import type { AddressTableEvent } from './table-event.ts';
import { decodeTableIndex, tableIndexPath, walPath } from './wal-files.ts';
import type { TableWal } from './table-wal.ts';
import type { TableMemory } from './table-memory.ts';
import { readWal, walRecordBytes } from './wal-record.ts';

export type WalReplayPorts = {
  readonly files: Pick<Files, 'read' | 'truncate' | 'remove'>;
  readonly self: NodeId;
  readonly emit: (event: AddressTableEvent) => void;
  readonly memory: TableMemory;
  readonly wal: TableWal;
};

/** Always calls `done` at the end, whatever the state of the disk. */
export function replayWal(ports: WalReplayPorts, done: () => void): void {
  const { files, self, memory } = ports;
  const path = tableIndexPath(self);
  files.read(path, (outcome) => {
    const bytes = readable(ports, path, outcome);
    const index = bytes === undefined ? undefined : decodeTableIndex(bytes);
    if (bytes !== undefined && index === undefined) damaged(ports, path, 'the index fails its checksum');
    if (index === undefined) return done();
    for (const [id, number] of index.nodes) memory.nodes.setNumber(id, number);
    memory.setVersion(index.version);
    const tables = index.pools.map(({ pool, revision }) => memory.setPool(pool, revision));
    replayPools(ports, tables, 0, done);
  });
}

/** Replays one pool after the other, so that only one log is in memory. */
function replayPools(ports: WalReplayPorts, tables: readonly PoolTable[], at: number, done: () => void): void {
  const table = tables[at];
  if (table === undefined) return done();
  replayPool(ports, table, () => replayPools(ports, tables, at + 1, done));
}

function replayPool(ports: WalReplayPorts, table: PoolTable, done: () => void): void {
  const { files, self, wal } = ports;
  const { record } = table.pool;
  const path = walPath(record, self);
  files.read(path, (outcome) => {
    const bytes = readable(ports, path, outcome);
    if (bytes === undefined) return done();
    const { records, condition } = fill(ports.memory, table, bytes);
    if (condition === 'damaged') {
      damaged(ports, path, `record ${records} is damaged`);
      table.clear();
      files.remove(path, () => done());
      return;
    }
    ports.memory.hashEntries(table);
    const validBytes = records * walRecordBytes;
    const ended = (cut: Outcome<void>): void => {
      if (cut.ok) wal.markValid(record, validBytes);
      done();
    };
    if (condition === 'intact') ended(success(undefined));
    else files.truncate(path, validBytes, ended);
  });
}

function fill(memory: TableMemory, table: PoolTable, bytes: Uint8Array): ReturnType<typeof readWal> {
  const { nodes } = memory;
  let highest = 0;
  const reading = readWal(bytes, table.pool.record, (container, node, version) => {
    if (!table.has(container)) return;
    table.set(container, version === 0 ? noOwner : nodes.indexOfNumber(node), version);
    if (version > highest) highest = version;
  });
  memory.setVersion(highest);
  return reading;
}

function readable(
  ports: WalReplayPorts,
  file: string,
  outcome: Outcome<Uint8Array | undefined>,
): Uint8Array | undefined {
  if (outcome.ok) return outcome.value;
  const { code, message } = outcome.error;
  ports.emit({ kind: 'table.damaged', file, code, reason: message });
  return undefined;
}

function damaged({ emit }: WalReplayPorts, file: string, reason: string): void {
  emit({ kind: 'table.damaged', file, code: 'STORE_CORRUPT', reason });
}
