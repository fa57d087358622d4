/**
 * Backup file format, and restore through the log: the last part replaces the key space on every replica at one log
 * entry. A corrupt or foreign file changes nothing.
 *
 *   magic (8) | version (1) | CRC-32 of the rest (4) | length and name of the cluster | snapshot (registry-snapshot.ts)
 */
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import { crc32 } from '../../base/crc.ts';
import { dataFormat } from '../../base/format-versions.ts';
import type { GroupHandle } from '../../consensus/state/state-machine.ts';
import {
  type RegistryCommand,
  registryCommandCodec,
  registryRestorePartBytesMax,
} from '../../messages/registry-log.ts';
import { concatBytes, registrySnapshotParts, readRegistrySnapshot } from './registry-snapshot.ts';
import type { KeyspaceSnapshot } from '../keyspace/keyspace-types.ts';
import type { RegistryReplica } from './registry-replica.ts';
import { type RegistryWriteResult, errorOfRefusal } from '../registry-messages.ts';

const magic = new TextEncoder().encode('RMSTRREG');

const checksumAt = magic.length + 1;
const bodyAt = checksumAt + 4;
/** More than the largest key space. */
export const registryBackupBytesMax = 120_000_000;

/** The state of this replica; complete on the leader after a read barrier. */
export function encodeBackup(replica: RegistryReplica, cluster: string): Uint8Array {
  const name = new TextEncoder().encode(cluster);
  const keyspace = { ...replica.keyspace.snapshot(), history: [] };
  const snapshot = registrySnapshotParts({ keyspace, clients: [], answers: [], staged: undefined });
  const bytes = concatBytes([magic, Uint8Array.of(dataFormat, 0, 0, 0, 0, name.length), name, ...snapshot]);
  new DataView(bytes.buffer).setUint32(checksumAt, crc32(bytes.subarray(bodyAt)));
  return bytes;
}

/** Throws BAD_ARGUMENT, INCOMPATIBLE_VERSION, STORE_CORRUPT or PRECONDITION if it cannot be restored here. */
export function decodeBackup(bytes: Uint8Array, cluster: string): KeyspaceSnapshot {
  if (bytes.length <= bodyAt || magic.some((byte, at) => bytes[at] !== byte))
    throw new RemusterError('BAD_ARGUMENT', 'the file is not a registry backup');
  const format = bytes[magic.length];
  if (format !== dataFormat) {
    const text = `the backup has format ${format}; this version reads only format ${dataFormat}`;
    throw new RemusterError('INCOMPATIBLE_VERSION', `${text}; restore it with the version that wrote it`);
  }
  const body = bytes.subarray(bodyAt);
  const checksum = new DataView(bytes.buffer, bytes.byteOffset).getUint32(checksumAt);
  if (crc32(body) !== checksum)
    throw new RemusterError('STORE_CORRUPT', 'the backup is corrupt: its checksum does not match');
  const nameEnd = 1 + (body[0] as number);
  const name = new TextDecoder().decode(body.subarray(1, nameEnd));
  if (name !== cluster)
    throw new RemusterError(
      'PRECONDITION',
      `the backup belongs to cluster "${name}"; this is cluster "${cluster}"`,
      'no',
    );
  return readRegistrySnapshot(body.subarray(nameEnd));
}

export type BackupRestoreRequest = {
  readonly backup: Uint8Array;
  readonly cluster: string;
  /** Unique per restore. */
  readonly id: string;
  /** Per part. */
  readonly timeoutMs: number;
};

/** On the leader only. After DEADLINE or NETWORK_TIMEOUT the restore may have happened: check before a retry. */
export function restoreBackup(
  group: GroupHandle<RegistryWriteResult>,
  request: BackupRestoreRequest,
  done: Done<void>,
): void {
  const { backup, cluster, id, timeoutMs } = request;
  const send = (offset: number): void => {
    const bytes = backup.subarray(offset, offset + registryRestorePartBytesMax);
    const next = offset + bytes.length;
    const last = next === backup.length;
    restoreBackupPart(group, { id, offset, bytes, last, cluster }, timeoutMs, (outcome) => {
      if (outcome.ok && !last) send(next);
      else done(outcome);
    });
  };
  send(0);
}

/** Send the parts in order, each after the success of the one before; the last part replaces the key space. */
export function restoreBackupPart(
  group: Pick<GroupHandle<RegistryWriteResult>, 'propose'>,
  part: Omit<RestorePart, 'kind'>,
  timeoutMs: number,
  done: Done<void>,
): void {
  group.propose(registryCommandCodec.encode({ kind: 'registryRestorePart', ...part }), timeoutMs, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const result = outcome.value.result;
    done(result.kind === 'registryError' ? { ok: false, error: errorOfRefusal(result) } : success(undefined));
  });
}

type RestorePart = Extract<RegistryCommand, { readonly kind: 'registryRestorePart' }>;

/** The received parts of a backup. One restore at a time: a new one cancels the one before. */
export class StagedBackup {
  #id: string | undefined;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  /** The whole backup with the last part, undefined before. */
  add({ id, offset, bytes, last, cluster }: RestorePart): Outcome<KeyspaceSnapshot | undefined> {
    if (offset === 0) this.#reset(id);
    if (id !== this.#id || offset !== this.#bytes)
      return failure('PRECONDITION', 'this restore has ended, or another restore has replaced it');
    if (offset + bytes.length > registryBackupBytesMax) {
      this.#reset(undefined);
      return failure('TOO_LARGE', `a backup of more than ${registryBackupBytesMax} bytes cannot be restored`);
    }
    this.#append(bytes);
    return last ? this.#finish(cluster) : success(undefined);
  }

  snapshot(): { readonly id: string; readonly parts: readonly Uint8Array[] } | undefined {
    return this.#id === undefined ? undefined : { id: this.#id, parts: [...this.#parts] };
  }

  /** Adds one part of a snapshot to an empty `StagedBackup`; the first part has the id. */
  fill(id: string | undefined, bytes: Uint8Array | undefined): void {
    this.#id ??= id;
    if (bytes !== undefined) this.#append(bytes);
  }

  #reset(id: string | undefined): void {
    this.#id = id;
    this.#parts = [];
    this.#bytes = 0;
  }

  #append(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#parts.push(bytes);
    this.#bytes += bytes.length;
  }

  #finish(cluster: string): Outcome<KeyspaceSnapshot> {
    const backup = concatBytes(this.#parts);
    this.#reset(undefined);
    try {
      return success(decodeBackup(backup, cluster));
    } catch (error) {
      if (isRemusterError(error)) return { ok: false, error };
      throw error;
    }
  }
}
