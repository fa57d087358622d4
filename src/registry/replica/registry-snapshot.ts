/**
 * Encodes the state of a replica as length-prefixed parts, one at a time. Snapshots hold the whole state, backups only
 * keys and leases. Has no checksum of its own.
 */
import { RemusterError } from '../../base/errors.ts';
import type { RegistryEntry } from '../../base/registry.ts';
import {
  type RegistrySnapshotReply,
  type RegistrySnapshotClient,
  type RegistrySnapshotPart,
  registrySnapshotCodec,
  registrySnapshotPartBytes,
  registrySnapshotPartBytesMax,
} from '../../messages/registry-log.ts';
import type { GrantedLease, KeyspaceNumbers, KeyspaceSnapshot } from '../keyspace/keyspace-types.ts';
import type { RevisionChanges } from '../keyspace/change-history.ts';
import { revisionFromWire, revisionToWire } from '../registry-messages.ts';

export type RegistrySnapshot = {
  readonly keyspace: KeyspaceSnapshot;
  readonly clients: readonly RegistrySnapshotClient[];
  readonly answers: Iterable<RegistrySnapshotReply>;
  readonly staged: { readonly id: string; readonly parts: readonly Uint8Array[] } | undefined;
};

const lengthBytes = 4;
const emptyPart: RegistrySnapshotPart = {
  kind: 'registrySnapshotPart',
  leases: [],
  entries: [],
  history: [],
  clients: [],
  answers: [],
  stagedId: undefined,
  staged: undefined,
  numbers: undefined,
};

export function* registrySnapshotParts({
  keyspace,
  clients,
  answers,
  staged,
}: RegistrySnapshot): Generator<Uint8Array> {
  const { groupId, restores, revision, lastLease } = keyspace;
  yield encodePart({ numbers: { groupId, restores, revision, lastLease }, stagedId: staged?.id });
  for (const leases of chunked(keyspace.leases, () => 32)) yield encodePart({ leases });
  for (const entries of chunked(keyspace.entries, entryBytes)) yield encodePart({ entries });
  for (const some of chunked(keyspace.history, revisionBytes)) yield encodePart({ history: some.map(revisionToWire) });
  for (const some of chunked(clients, () => 32)) yield encodePart({ clients: some });
  for (const some of chunked(answers, ({ answer }) => 32 + (answer?.length ?? 0))) yield encodePart({ answers: some });
  for (const part of staged?.parts ?? []) yield encodePart({ staged: part });
}

/** The content of one part; the first part also has revision and last lease. */
type SnapshotItems = Omit<RegistrySnapshotPart, 'kind' | 'history'> & { readonly history: readonly RevisionChanges[] };

/** Reads the bytes of a snapshot, cut anywhere. Throws STORE_CORRUPT if they are not one whole snapshot. */
export class RegistrySnapshotReader {
  readonly #onItems: (items: SnapshotItems) => void;
  #rest = new Uint8Array();
  #hasStarted = false;

  constructor(onItems: (items: SnapshotItems) => void) {
    this.#onItems = onItems;
  }

  add(bytes: Uint8Array): void {
    const all = this.#rest.length === 0 ? bytes : concatBytes([this.#rest, bytes]);
    const view = new DataView(all.buffer, all.byteOffset, all.byteLength);
    let at = 0;
    while (all.length - at >= lengthBytes) {
      const start = at + lengthBytes;
      const end = start + view.getUint32(at);
      if (end - start > registrySnapshotPartBytesMax) throw corrupt('a part is too large');
      if (end > all.length) break;
      this.#read(all.subarray(start, end));
      at = end;
    }
    this.#rest = all.slice(at);
  }

  finish(): void {
    if (this.#rest.length > 0) throw corrupt('it is truncated');
    if (!this.#hasStarted) throw corrupt('its first part is missing');
  }

  #read(bytes: Uint8Array): void {
    const part = decodePart(bytes);
    const isFirst = part.numbers !== undefined;
    if (isFirst === this.#hasStarted) throw corrupt('its first part is not at the start');
    this.#hasStarted = true;
    this.#onItems({ ...part, history: part.history.map(revisionFromWire) });
  }
}

/** The keys and leases of a snapshot. Throws STORE_CORRUPT if the bytes are not one whole snapshot. */
export function readRegistrySnapshot(bytes: Uint8Array): KeyspaceSnapshot {
  const leases: GrantedLease[] = [];
  const entries: RegistryEntry[] = [];
  let numbers: KeyspaceNumbers = { groupId: '', restores: 0, revision: 0, lastLease: 0 };
  const reader = new RegistrySnapshotReader((items) => {
    numbers = items.numbers ?? numbers;
    for (const lease of items.leases) leases.push(lease);
    for (const entry of items.entries) entries.push(entry);
  });
  reader.add(bytes);
  reader.finish();
  return { ...numbers, leases, entries, history: [] };
}

export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const out = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function* chunked<T>(items: Iterable<T>, bytesOf: (item: T) => number): Generator<T[]> {
  let part: T[] = [];
  let bytes = 0;
  for (const item of items) {
    part.push(item);
    bytes += bytesOf(item);
    if (bytes < registrySnapshotPartBytes) continue;
    yield part;
    part = [];
    bytes = 0;
  }
  if (part.length > 0) yield part;
}

function entryBytes({ key, value }: RegistryEntry): number {
  return key.length + value.length + 32;
}

function revisionBytes({ changes }: RevisionChanges): number {
  let bytes = 16;
  for (const change of changes) bytes += change.kind === 'put' ? entryBytes(change.entry) : change.key.length + 8;
  return bytes;
}

function encodePart(items: Partial<RegistrySnapshotPart>): Uint8Array {
  const part = registrySnapshotCodec.encode({ ...emptyPart, ...items });
  const out = new Uint8Array(lengthBytes + part.length);
  new DataView(out.buffer).setUint32(0, part.length);
  out.set(part, lengthBytes);
  return out;
}

function decodePart(bytes: Uint8Array): RegistrySnapshotPart {
  try {
    return registrySnapshotCodec.decode(bytes);
  } catch (error) {
    throw corrupt(error instanceof Error ? error.message : 'a part is malformed');
  }
}

function corrupt(reason: string): RemusterError {
  return new RemusterError('STORE_CORRUPT', `the registry snapshot is corrupt: ${reason}`);
}
