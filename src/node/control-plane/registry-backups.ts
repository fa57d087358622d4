/**
 * Reads and restores registry backups in parts on the leader. Caches one backup while it is being read; a restore goes
 * into the log part by part.
 */
import { type Done, RemusterError, failure, success } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import { restoreBackupPart, encodeBackup } from '../../registry/replica/registry-backup.ts';
import { decodeBase64, encodeBase64 } from '../../base/base64.ts';
import type { ManagerRole } from '../group/manager-role.ts';
import { type CommandArguments, integerArgument, booleanArgument, commandArguments } from './command-arguments.ts';

export const backupPartBytesMax = 524_288;

const keptMs = 60_000;
const nameCharactersMax = 63;

/** The registry belongs to one datacenter of a cluster; a backup of another one is not to be restored in it. */
export function backupName(cluster: string, dc: string): string {
  return `${cluster}/${dc}`.slice(0, nameCharactersMax);
}

export type BackupPart = {
  readonly id: string;
  readonly revision: number;
  /** Of the whole. */
  readonly size: number;
  readonly offset: number;
  /** base64 */
  readonly bytes: string;
  readonly last: boolean;
};

type CachedBackup = { readonly id: string; readonly revision: number; readonly bytes: Uint8Array };

export class RegistryBackups {
  readonly #clock: Clock;
  readonly #seat: Pick<ManagerRole, 'group' | 'replica'>;
  #kept: CachedBackup | undefined;
  #forget: Cancel = () => {};
  #made = 0;

  constructor(clock: Clock, seat: Pick<ManagerRole, 'group' | 'replica'>) {
    this.#clock = clock;
    this.#seat = seat;
  }

  /** `{cluster}` makes one and has its first part; `{cluster, id, offset}` has another part of it. */
  read(words: unknown, timeoutMs: number, done: Done<BackupPart>): void {
    const fields = commandArguments(words);
    const cluster = textIn(fields, 'cluster', nameCharactersMax);
    const offset = integerArgument(fields, 'offset', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
    if (fields['id'] !== undefined) return done(this.#part(textIn(fields, 'id', 64), offset));
    if (offset !== 0) throw new RemusterError('BAD_ARGUMENT', 'a backup begins with its first part');
    this.#seat.group.readBarrier(timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      this.#made += 1;
      const { replica, group } = this.#seat;
      const id = `${group.view().term}-${this.#made}`;
      this.#kept = { id, revision: replica.keyspace.revision, bytes: encodeBackup(replica, cluster) };
      done(this.#part(id, 0));
    });
  }

  /** `{cluster, id, offset, bytes, last}`; the last part replaces the registry on all managers at once. */
  write(words: unknown, timeoutMs: number, done: Done<object>): void {
    const fields = commandArguments(words);
    const bytes = decodeBase64(textIn(fields, 'bytes', backupPartBytesMax * 2));
    if (bytes.length === 0 || bytes.length > backupPartBytesMax)
      throw new RemusterError('BAD_ARGUMENT', `a part has 1 to ${backupPartBytesMax} bytes`);
    const part = {
      ...{ cluster: textIn(fields, 'cluster', nameCharactersMax), id: textIn(fields, 'id', 32), bytes },
      offset: integerArgument(fields, 'offset', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0,
      last: booleanArgument(fields, 'last'),
    };
    restoreBackupPart(this.#seat.group, part, timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      done(success(part.last ? { restored: true, revision: this.#seat.replica.keyspace.revision } : {}));
    });
  }

  #part(id: string, offset: number): ReturnType<typeof failure> | { readonly ok: true; readonly value: BackupPart } {
    const kept = this.#kept;
    if (kept?.id !== id)
      return failure('PRECONDITION', 'this backup is not kept any more, or another leader made it: begin again', 'no');
    if (offset >= kept.bytes.length) return failure('BAD_ARGUMENT', 'the backup ends before this part');
    this.#forget();
    this.#forget = this.#clock.schedule(keptMs, () => {
      this.#kept = undefined;
    });
    const bytes = kept.bytes.subarray(offset, offset + backupPartBytesMax);
    const { revision } = kept;
    const last = offset + bytes.length === kept.bytes.length;
    return success({ id, revision, size: kept.bytes.length, offset, bytes: encodeBase64(bytes), last });
  }
}

function textIn(words: CommandArguments, field: string, charactersMax: number): string {
  const value = words[field];
  if (typeof value === 'string' && value !== '' && value.length <= charactersMax) return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} must be a text of at most ${charactersMax} characters`);
}
