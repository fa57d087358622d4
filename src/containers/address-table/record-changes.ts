/**
 * Parses one registry key into a change of a node number, pool or container. Skips what is malformed or not the
 * table's.
 */
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
  /** Without a record there is no such pool any more. */
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
  /** A pool was deleted: nothing else of that revision may be left. */
  | { readonly kind: 'deletion'; readonly revision: number }
  /** It is there, but we cannot read it: what was known of it stays. */
  | { readonly kind: 'unreadable'; readonly pool: string; readonly container?: number; readonly revision: number };

export function recordChangeOfEntry({ key, value, modRevision }: RegistryEntry): RecordChange | undefined {
  return newsOf(key, value, modRevision);
}

export function recordChangeOfDelta(change: RegistryChange): RecordChange | undefined {
  return change.kind === 'put' ? recordChangeOfEntry(change.entry) : newsOf(change.key, undefined, change.modRevision);
}

const numberPattern = /^(?:0|[1-9]\d{0,9})$/;

function newsOf(key: string, value: Uint8Array | undefined, revision: number): RecordChange | undefined {
  const parsed = parseClusterKey(key);
  if (parsed?.kind === 'containerNode') return numberNews(parsed.node, value, revision);
  if (parsed?.kind === 'lastDeletion') return { kind: 'deletion', revision };
  if (parsed?.kind === 'pool') return poolNews(parsed.pool, value, revision);
  return parsed?.kind === 'container' ? containerNews(parsed, value, revision) : undefined;
}

/** A number that was taken away may stand in logs: it is kept. */
function numberNews(node: NodeId, value: Uint8Array | undefined, revision: number): RecordChange | undefined {
  const number = value === undefined ? undefined : readNodeNumber(value);
  return number === undefined || number >= noNodeNumber ? undefined : { kind: 'number', node, number, revision };
}

function poolNews(name: string, value: Uint8Array | undefined, revision: number): RecordChange {
  if (value === undefined) return { kind: 'pool', name, record: undefined, revision };
  const record = readPool(value);
  return record === undefined ? { kind: 'unreadable', pool: name, revision } : { kind: 'pool', name, record, revision };
}

function containerNews(name: ContainerName, value: Uint8Array | undefined, revision: number): RecordChange | undefined {
  if (!numberPattern.test(name.container)) return undefined;
  const container = Number(name.container);
  const record = value === undefined ? undefined : readContainer(value);
  return record === undefined && value !== undefined
    ? { kind: 'unreadable', pool: name.pool, container, revision }
    : { kind: 'container', pool: name.pool, container, record, revision };
}
