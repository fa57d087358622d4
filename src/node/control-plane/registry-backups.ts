/**
 * Reads and restores registry backups in parts, on the leader. Caches one backup while it is read; a restore goes into
 * the log part by part.
 */
import { type Done, RemusterError, failure, success } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import { restoreBackupPart, encodeBackup } from '../../registry/replica/registry-backup.ts';
import { decodeBase64, encodeBase64 } from '../../base/base64.ts';
import type { ManagerRole } from '../group/manager-role.ts';
import { type CommandArguments, integerArgument, booleanArgument, commandArguments } from './command-arguments.ts';

export const backupPartBytesMax = 524_288;

const cacheMs = 60_000;
const nameCharactersMax = 63;

/** Each datacenter of a cluster has its own registry; a backup of another one must not be restored into it. */
export function backupName(cluster: string, dc: string): string {
  return `${cluster}/${dc}`.slice(0, nameCharactersMax);
}

export type BackupPart = {
  readonly id: string;
  readonly revision: number;
  /** Size of the whole backup. */
  readonly size: number;
  readonly offset: number;
  /** base64 */
  readonly bytes: string;
  readonly last: boolean;
};

type CachedBackup = { readonly id: string; readonly revision: number; readonly bytes: Uint8Array };

export class RegistryBackups {
  readonly #clock: Clock;
  readonly #manager: Pick<ManagerRole, 'group' | 'replica'>;
  #cached: CachedBackup | undefined;
  #cancelExpiry: Cancel = () => {};
  #createdCount = 0;

  constructor(clock: Clock, manager: Pick<ManagerRole, 'group' | 'replica'>) {
    this.#clock = clock;
    this.#manager = manager;
  }

  /** `{cluster}` creates a backup and returns its first part; `{cluster, id, offset}` returns another part of it. */
  read(args: unknown, timeoutMs: number, done: Done<BackupPart>): void {
    const fields = commandArguments(args);
    const cluster = textIn(fields, 'cluster', nameCharactersMax);
    const offset = integerArgument(fields, 'offset', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
    if (fields['id'] !== undefined) return done(this.#part(textIn(fields, 'id', 64), offset));
    if (offset !== 0)
      throw new RemusterError('BAD_ARGUMENT', 'offset must be 0 without id: a new backup starts with its first part');
    this.#manager.group.readBarrier(timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      this.#createdCount += 1;
      const { replica, group } = this.#manager;
      const id = `${group.view().term}-${this.#createdCount}`;
      this.#cached = { id, revision: replica.keyspace.revision, bytes: encodeBackup(replica, cluster) };
      done(this.#part(id, 0));
    });
  }

  /** `{cluster, id, offset, bytes, last}`; the last part replaces the registry on all managers at once. */
  write(args: unknown, timeoutMs: number, done: Done<object>): void {
    const fields = commandArguments(args);
    const bytes = decodeBase64(textIn(fields, 'bytes', backupPartBytesMax * 2));
    if (bytes.length === 0 || bytes.length > backupPartBytesMax)
      throw new RemusterError('BAD_ARGUMENT', `a part of a backup must have 1 to ${backupPartBytesMax} bytes`);
    const part = {
      ...{ cluster: textIn(fields, 'cluster', nameCharactersMax), id: textIn(fields, 'id', 32), bytes },
      offset: integerArgument(fields, 'offset', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0,
      last: booleanArgument(fields, 'last'),
    };
    restoreBackupPart(this.#manager.group, part, timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      done(success(part.last ? { restored: true, revision: this.#manager.replica.keyspace.revision } : {}));
    });
  }

  #part(id: string, offset: number): ReturnType<typeof failure> | { readonly ok: true; readonly value: BackupPart } {
    const cached = this.#cached;
    if (cached?.id !== id)
      return failure('PRECONDITION', 'this backup has expired, or another leader created it: start again', 'no');
    if (offset >= cached.bytes.length)
      return failure('BAD_ARGUMENT', `offset ${offset} is beyond the end of the backup`);
    this.#cancelExpiry();
    this.#cancelExpiry = this.#clock.schedule(cacheMs, () => {
      this.#cached = undefined;
    });
    const bytes = cached.bytes.subarray(offset, offset + backupPartBytesMax);
    const { revision } = cached;
    const last = offset + bytes.length === cached.bytes.length;
    return success({ id, revision, size: cached.bytes.length, offset, bytes: encodeBase64(bytes), last });
  }
}

function textIn(args: CommandArguments, field: string, charactersMax: number): string {
  const value = args[field];
  if (typeof value === 'string' && value !== '' && value.length <= charactersMax) return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} must be text of at most ${charactersMax} characters`);
}
