/** Names of the WAL files, and the format of their index. The index is written before any log that needs it. */
import { crc32c } from '../../base/crc.ts';
import { isRemusterError } from '../../base/errors.ts';
import { type NodeId, parseNodeId } from '../../base/ids.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import { encodePool, readPool } from '../../placement/state/container-records.ts';
import type { KnownPool } from '../contract.ts';
import type { WalPool } from './wal-record.ts';

export const tableDirectory = 'wal';
const crcBytes = 4;
const indexBytesMax = 100_000_000;

export type TableIndex = {
  /** Version of the table at the time of the write. */
  readonly version: number;
  readonly nodes: readonly (readonly [NodeId, number])[];
  readonly pools: readonly { readonly pool: KnownPool; readonly revision: number }[];
};

export function walPath({ major, minor }: WalPool, self: NodeId): string {
  return `${tableDirectory}/domain_table.${major}.${minor}.${self}.bin`;
}

export function tableIndexPath(self: NodeId): string {
  return `${tableDirectory}/domain_table.${self}.index`;
}

/** Undefined if the file is not a log of this node. */
export function poolOfWalFile(name: string, self: NodeId): WalPool | undefined {
  const [, major, minor, node] = /^domain_table\.(\d{1,16})\.(\d{1,16})\.([0-9a-f]{32})\.bin$/.exec(name) ?? [];
  return node === self ? { major: Number(major), minor: Number(minor) } : undefined;
}

export function encodeTableIndex({ version, nodes, pools }: TableIndex): Uint8Array {
  const value = encodeValue(
    { version, nodes, pools: pools.map(({ pool, revision }) => [pool.name, encodePool(pool.record), revision]) },
    indexBytesMax,
  );
  const bytes = new Uint8Array(value.length + crcBytes);
  bytes.set(value);
  new DataView(bytes.buffer).setUint32(value.length, crc32c(value), true);
  return bytes;
}

/** Undefined if the index is damaged. */
export function decodeTableIndex(bytes: Uint8Array): TableIndex | undefined {
  const end = bytes.length - crcBytes;
  if (end < 0) return undefined;
  const value = bytes.subarray(0, end);
  if (new DataView(bytes.buffer, bytes.byteOffset).getUint32(end, true) !== crc32c(value)) return undefined;
  try {
    // Bytes that pass the checksum were written by this node, in this version or another one.
    const { version, nodes, pools } = decodeValue(value, indexBytesMax) as {
      readonly version: number;
      readonly nodes: readonly (readonly [string, number])[];
      readonly pools: readonly (readonly [string, Uint8Array, number])[];
    };
    return {
      version,
      nodes: nodes.map(([id, number]) => [parseNodeId(id), number]),
      pools: pools.flatMap(([name, record, revision]) => poolOf(name, record, revision)),
    };
  } catch (error) {
    if (isRemusterError(error) || error instanceof TypeError) return undefined;
    throw error;
  }
}

function poolOf(name: string, bytes: Uint8Array, revision: number): TableIndex['pools'] {
  const record = readPool(bytes);
  return record === undefined ? [] : [{ pool: { name, record }, revision }];
}
