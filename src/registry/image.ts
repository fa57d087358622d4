/**
 * The state of a replica as bytes: parts of about a megabyte, each behind its length. Snapshots hold all of it, backups
 * only the keys and leases. Whether the bytes are those that were written is for whoever keeps them to say.
 */
import { RemusterError } from '../base/errors.ts';
import type { RegistryEntry } from '../base/registry.ts';
import {
  type ImageAnswer,
  type ImageClient,
  type RegistryImagePart,
  imageCodec,
  imagePartBytes,
  restorePartBytesMax,
} from '../messages/registry-log.ts';
import type { GrantedLease, KeyspaceImage } from './keyspace.ts';
import type { RevisionChanges } from './history.ts';
import { revisionFromWire, revisionToWire } from './wire.ts';

export type ReplicaImage = {
  readonly keyspace: KeyspaceImage;
  readonly clients: readonly ImageClient[];
  readonly answers: readonly ImageAnswer[];
  readonly staged: { readonly id: string; readonly bytes: Uint8Array } | undefined;
};

const lengthBytes = 4;
const emptyPart: RegistryImagePart = {
  kind: 'registryImagePart',
  revision: undefined,
  lastLease: undefined,
  leases: [],
  entries: [],
  history: [],
  clients: [],
  answers: [],
  stagedId: undefined,
  staged: undefined,
};

export function writeImage({ keyspace, clients, answers, staged }: ReplicaImage): Uint8Array {
  const parts: Uint8Array[] = [];
  const add = (part: Partial<RegistryImagePart>): void => {
    parts.push(imageCodec.encode({ ...emptyPart, ...part }));
  };
  add({ revision: keyspace.revision, lastLease: keyspace.lastLease, stagedId: staged?.id });
  for (const leases of inParts(keyspace.leases, () => 32)) add({ leases });
  for (const entries of inParts(keyspace.entries, entryBytes)) add({ entries });
  for (const history of inParts(keyspace.history, revisionBytes)) add({ history: history.map(revisionToWire) });
  for (const some of inParts(clients, () => 32)) add({ clients: some });
  for (const some of inParts(answers, ({ answer }) => 32 + (answer?.length ?? 0))) add({ answers: some });
  const rest = staged?.bytes ?? new Uint8Array();
  for (let at = 0; at < rest.length; at += restorePartBytesMax)
    add({ staged: rest.subarray(at, at + restorePartBytesMax) });
  return joined(parts);
}

/** Throws STORE_CORRUPT when the bytes are not a whole image. */
export function readImage(bytes: Uint8Array): ReplicaImage {
  const leases: GrantedLease[] = [];
  const entries: RegistryEntry[] = [];
  const history: RevisionChanges[] = [];
  const clients: ImageClient[] = [];
  const answers: ImageAnswer[] = [];
  const staged: Uint8Array[] = [];
  let first: RegistryImagePart | undefined;
  for (const part of partsOf(bytes)) {
    first ??= part;
    for (const lease of part.leases) leases.push(lease);
    for (const entry of part.entries) entries.push(entry);
    for (const revision of part.history) history.push(revisionFromWire(revision));
    for (const client of part.clients) clients.push(client);
    for (const answer of part.answers) answers.push(answer);
    if (part.staged !== undefined) staged.push(part.staged);
  }
  const { revision, lastLease, stagedId } = first ?? emptyPart;
  if (revision === undefined || lastLease === undefined) throw corrupt('it has no beginning');
  return {
    keyspace: { revision, lastLease, leases, entries, history },
    clients,
    answers,
    staged: stagedId === undefined ? undefined : { id: stagedId, bytes: concatenated(staged) },
  };
}

export function concatenated(parts: readonly Uint8Array[]): Uint8Array {
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

function* inParts<T>(items: Iterable<T>, bytesOf: (item: T) => number): Generator<T[]> {
  let part: T[] = [];
  let bytes = 0;
  for (const item of items) {
    part.push(item);
    bytes += bytesOf(item);
    if (bytes < imagePartBytes) continue;
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

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return concatenated(
    parts.flatMap((part) => {
      const length = new Uint8Array(lengthBytes);
      new DataView(length.buffer).setUint32(0, part.length);
      return [length, part];
    }),
  );
}

function* partsOf(bytes: Uint8Array): Generator<RegistryImagePart> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length;) {
    if (bytes.length - at < lengthBytes) throw corrupt('it is cut short');
    const start = at + lengthBytes;
    const end = start + view.getUint32(at);
    if (end > bytes.length) throw corrupt('it is cut short');
    yield decodedPart(bytes.subarray(start, end));
    at = end;
  }
}

function decodedPart(bytes: Uint8Array): RegistryImagePart {
  try {
    return imageCodec.decode(bytes);
  } catch (error) {
    throw corrupt(error instanceof Error ? error.message : 'a part of it cannot be read');
  }
}

function corrupt(what: string): RemusterError {
  return new RemusterError('STORE_CORRUPT', `the image of the registry is damaged: ${what}`);
}
