/**
 * Backup file format and restore through the log; the last part replaces the key space on every replica at one entry. A
 * damaged or foreign file changes nothing.
 *
 *   magic (8) | version (1) | CRC-32 of all that follows (4) | length and name of the cluster | image (registry-snapshot.ts)
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
import type { KeyspaceSnapshot } from '../keyspace/keyspace.ts';
import type { RegistryReplica } from './registry-replica.ts';
import { type RegistryWriteResult, errorOfRefusal } from '../registry-messages.ts';

const magic = new TextEncoder().encode('RMSTRREG');

const checksumAt = magic.length + 1;
const bodyAt = checksumAt + 4;
/** More than any key space may hold. */
const backupBytesMax = 120_000_000;

/** What this replica has; the leader after a read barrier has everything. */
export function encodeBackup(replica: RegistryReplica, cluster: string): Uint8Array {
  const name = new TextEncoder().encode(cluster);
  const keyspace = { ...replica.keyspace.snapshot(), history: [] };
  const image = registrySnapshotParts({ keyspace, clients: [], answers: [], staged: undefined });
  const bytes = concatBytes([magic, Uint8Array.of(dataFormat, 0, 0, 0, 0, name.length), name, ...image]);
  new DataView(bytes.buffer).setUint32(checksumAt, crc32(bytes.subarray(bodyAt)));
  return bytes;
}

/** BAD_ARGUMENT, INCOMPATIBLE_VERSION, STORE_CORRUPT or PRECONDITION when it cannot be restored here. */
export function decodeBackup(bytes: Uint8Array, cluster: string): KeyspaceSnapshot {
  if (bytes.length <= bodyAt || magic.some((byte, at) => bytes[at] !== byte))
    throw new RemusterError('BAD_ARGUMENT', 'this is not a backup of a registry');
  const format = bytes[magic.length];
  if (format !== dataFormat) {
    const text = `the backup has format ${format}, and this version reads format ${dataFormat} only`;
    throw new RemusterError('INCOMPATIBLE_VERSION', `${text}; restore it with the version that wrote it`);
  }
  const body = bytes.subarray(bodyAt);
  const checksum = new DataView(bytes.buffer, bytes.byteOffset).getUint32(checksumAt);
  if (crc32(body) !== checksum) throw new RemusterError('STORE_CORRUPT', 'the backup is damaged: its checksum differs');
  const nameEnd = 1 + (body[0] as number);
  const name = new TextDecoder().decode(body.subarray(1, nameEnd));
  if (name !== cluster)
    throw new RemusterError(
      'PRECONDITION',
      `the backup belongs to the cluster "${name}", and this is "${cluster}"`,
      'no',
    );
  return readRegistrySnapshot(body.subarray(nameEnd));
}

export type BackupRestoreRequest = {
  readonly backup: Uint8Array;
  readonly cluster: string;
  /** Not used for another restoring. */
  readonly id: string;
  /** For each part. */
  readonly timeoutMs: number;
};

/** On the leader only. DEADLINE and NETWORK_TIMEOUT leave open whether the last part arrived: look before repeating. */
export function restoreBackup(
  group: GroupHandle<RegistryWriteResult>,
  request: BackupRestoreRequest,
  end: Done<void>,
): void {
  const { backup, cluster, id, timeoutMs } = request;
  const send = (offset: number): void => {
    const bytes = backup.subarray(offset, offset + registryRestorePartBytesMax);
    const next = offset + bytes.length;
    const last = next === backup.length;
    restoreBackupPart(group, { id, offset, bytes, last, cluster }, timeoutMs, (outcome) => {
      if (outcome.ok && !last) send(next);
      else end(outcome);
    });
  };
  send(0);
}

/** The parts come in order, each after the one before has ended well; the last one replaces everything. */
export function restoreBackupPart(
  group: Pick<GroupHandle<RegistryWriteResult>, 'propose'>,
  part: Omit<RestorePart, 'kind'>,
  timeoutMs: number,
  end: Done<void>,
): void {
  group.propose(registryCommandCodec.encode({ kind: 'registryRestorePart', ...part }), timeoutMs, (outcome) => {
    if (!outcome.ok) return end(outcome);
    const answer = outcome.value.result;
    end(answer.kind === 'registryError' ? { ok: false, error: errorOfRefusal(answer) } : success(undefined));
  });
}

type RestorePart = Extract<RegistryCommand, { readonly kind: 'registryRestorePart' }>;

/** What has arrived of a backup that is being restored; one at a time, and a new one ends the one before. */
export class StagedBackup {
  #id: string | undefined;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  /** The whole of it with the last part, undefined before. */
  add({ id, offset, bytes, last, cluster }: RestorePart): Outcome<KeyspaceSnapshot | undefined> {
    if (offset === 0) this.#begin(id);
    if (id !== this.#id || offset !== this.#bytes)
      return failure('PRECONDITION', 'this restoring has ended, or was given up for another one');
    if (offset + bytes.length > backupBytesMax) {
      this.#begin(undefined);
      return failure('TOO_LARGE', `a backup of more than ${backupBytesMax} bytes cannot be restored`);
    }
    this.#keep(bytes);
    return last ? this.#finish(cluster) : success(undefined);
  }

  /** As it is now. */
  image(): { readonly id: string; readonly parts: readonly Uint8Array[] } | undefined {
    return this.#id === undefined ? undefined : { id: this.#id, parts: [...this.#parts] };
  }

  /** One part of an image after the other, into one that was empty before; the id comes with the first. */
  fill(id: string | undefined, bytes: Uint8Array | undefined): void {
    this.#id ??= id;
    if (bytes !== undefined) this.#keep(bytes);
  }

  #begin(id: string | undefined): void {
    this.#id = id;
    this.#parts = [];
    this.#bytes = 0;
  }

  #keep(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#parts.push(bytes);
    this.#bytes += bytes.length;
  }

  #finish(cluster: string): Outcome<KeyspaceSnapshot> {
    const backup = concatBytes(this.#parts);
    this.#begin(undefined);
    try {
      return success(decodeBackup(backup, cluster));
    } catch (error) {
      if (isRemusterError(error)) return { ok: false, error };
      throw error;
    }
  }
}
