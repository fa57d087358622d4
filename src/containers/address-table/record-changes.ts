/** Parses a registry key into a change of a node number, pool or container. Skips malformed and unrelated keys. */
import type { NodeId } from '../../base/ids.ts';
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';
import { type ContainerName, parseClusterKey } from '../../registry/cluster-keys.ts';
import {
  type ContainerRecord,
  type PoolRecord,
  readContainer,
  readNodeNumber,
  readPool,
} from '../../placement/state/container-records.ts';
import { noNodeNumber } from './wal-record.ts';

export type RecordChange =
  | { readonly kind: 'number'; readonly node: NodeId; readonly number: number; readonly revision: number }
  /** `record` undefined: the pool is deleted. */
  | {
      readonly kind: 'pool';
      readonly name: string;
      readonly record: PoolRecord | undefined;
      readonly revision: number;
    }
  | {
      readonly kind: 'container';
      readonly pool: string;
      readonly container: number;
      readonly record: ContainerRecord | undefined;
      readonly revision: number;
    }
  /** A pool was deleted; its revision may have no other key. */
  | { readonly kind: 'deletion'; readonly revision: number }
  /** The record exists, but this version cannot read it: the known state stays. */
  | { readonly kind: 'unreadable'; readonly pool: string; readonly container?: number; readonly revision: number };

export function recordChangeOfEntry({ key, value, modRevision }: RegistryEntry): RecordChange | undefined {
  return changeOfKey(key, value, modRevision);
}

export function recordChangeOfDelta(change: RegistryChange): RecordChange | undefined {
  return change.kind === 'put'
    ? recordChangeOfEntry(change.entry)
    : changeOfKey(change.key, undefined, change.modRevision);
}

const numberPattern = /^(?:0|[1-9]\d{0,9})$/;

function changeOfKey(key: string, value: Uint8Array | undefined, revision: number): RecordChange | undefined {
  const parsed = parseClusterKey(key);
  if (parsed?.kind === 'containerNode') return numberChange(parsed.node, value, revision);
  if (parsed?.kind === 'lastDeletion') return { kind: 'deletion', revision };
  if (parsed?.kind === 'pool') return poolChange(parsed.pool, value, revision);
  return parsed?.kind === 'container' ? containerChange(parsed, value, revision) : undefined;
}

/** A deleted number may still be in logs, so it is kept. */
function numberChange(node: NodeId, value: Uint8Array | undefined, revision: number): RecordChange | undefined {
  const number = value === undefined ? undefined : readNodeNumber(value);
  return number === undefined || number >= noNodeNumber ? undefined : { kind: 'number', node, number, revision };
}

function poolChange(name: string, value: Uint8Array | undefined, revision: number): RecordChange {
  if (value === undefined) return { kind: 'pool', name, record: undefined, revision };
  const record = readPool(value);
  return record === undefined ? { kind: 'unreadable', pool: name, revision } : { kind: 'pool', name, record, revision };
}

function containerChange(
  name: ContainerName,
  value: Uint8Array | undefined,
  revision: number,
): RecordChange | undefined {
  if (!numberPattern.test(name.container)) return undefined;
  const container = Number(name.container);
  const record = value === undefined ? undefined : readContainer(value);
  return record === undefined && value !== undefined
    ? { kind: 'unreadable', pool: name.pool, container, revision }
    : { kind: 'container', pool: name.pool, container, record, revision };
}
