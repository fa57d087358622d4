/**
 * `remuster registry snapshot save|restore FILE`: the whole registry as one file that says whether it is whole and to
 * which cluster it belongs. A file appears complete or not at all; one that is damaged or foreign is never sent.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError, isRemusterError } from '../base/errors.ts';
import { type BackupPart, backupName, backupPartBytesMax } from '../node/control/backup-desk.ts';
import { decodeBackup } from '../registry/replica/registry-backup.ts';
import { confirm, type ConsentFlags } from './confirm.ts';
import { exitOk } from './failure.ts';
import { changeJson, getJson, withQuery } from './http-client.ts';
import { type Format, renderThing } from './output.ts';
import type { Leader } from './status.ts';
import { findTarget, type Target, type TargetFlags } from './target.ts';
import { plain, print, say } from './terminal.ts';

const fileBytesMax = 134_217_728;
const partTimeoutMs = 60_000;
const attemptsMax = 3;
const againMs = 500;
const partAttemptsMax = 20;

export async function saveSnapshot(file: string, flags: TargetFlags, format: Format): Promise<number> {
  const target = await findTarget(flags);
  const name = await registryName(target);
  const { bytes, revision } = await fetched(target);
  const keys = [...decodeBackup(bytes, name).entries].length;
  write(file, bytes);
  const thing = { file, cluster: name, revision, keys, bytes: bytes.length };
  print(await renderThing(format, thing, { name: file, lines: linesOf(thing) }));
  return exitOk;
}

type Snapshot = {
  readonly file: string;
  readonly cluster: string;
  readonly revision: number;
  readonly keys: number;
  readonly bytes: number;
};

function linesOf({ file, cluster, revision, keys, bytes }: Snapshot): [string, string][] {
  return [
    ['FILE', file],
    ['CLUSTER', cluster],
    ['REVISION', String(revision)],
    ['KEYS', String(keys)],
    ['BYTES', String(bytes)],
  ];
}

async function registryName(target: Target): Promise<string> {
  const { cluster } = (await getJson(target, '/v1/status')) as { cluster: string };
  const { dc } = (await getJson(target, '/v1/leader')) as Leader;
  return backupName(cluster, dc);
}

/** From the beginning when the leader changes in between: the new one has another backup. */
async function fetched(target: Target): Promise<{ readonly bytes: Uint8Array; readonly revision: number }> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fetchedOnce(target);
    } catch (error) {
      if (!isRemusterError(error, 'PRECONDITION') || attempt === attemptsMax) throw error;
      say(error.message);
    }
  }
}

async function fetchedOnce(target: Target): Promise<{ readonly bytes: Uint8Array; readonly revision: number }> {
  const parts: Uint8Array[] = [];
  let part = await fetchPart(target, {});
  for (let offset = 0; ;) {
    const bytes = Buffer.from(part.bytes, 'base64');
    parts.push(bytes);
    offset += bytes.length;
    if (offset > fileBytesMax || part.size > fileBytesMax)
      throw new RemusterError('TOO_LARGE', 'the backup is too large');
    if (part.last) return { bytes: new Uint8Array(Buffer.concat(parts)), revision: part.revision };
    if (bytes.length === 0) throw new RemusterError('MALFORMED', 'the node sent an empty part');
    part = await fetchPart(target, { id: part.id, offset: String(offset) });
  }
}

async function fetchPart(target: Target, query: Readonly<Record<string, string>>): Promise<BackupPart> {
  return (await getJson(target, withQuery('/v1/registry/snapshot', query), partTimeoutMs)) as BackupPart;
}

/** Durable under its name, or not there. What the registry holds is not for everybody to read. */
function write(file: string, bytes: Uint8Array): void {
  const partial = `${file}.${randomBytes(4).toString('hex')}.partial`;
  try {
    const handle = openSync(partial, 'wx', 0o600);
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(handle, bytes, at);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    renameSync(partial, file);
  } catch (error) {
    rmSync(partial, { force: true });
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new RemusterError('STORE_FAILED', `cannot write ${JSON.stringify(file)} (${code})`);
  }
}

export type RestoreFlags = TargetFlags &
  ConsentFlags & { readonly output: Format; readonly dryRun?: true; readonly reason?: string };

export async function restoreSnapshot(file: string, flags: RestoreFlags): Promise<number> {
  const bytes = read(file);
  const target = await findTarget(flags);
  const name = await registryName(target);
  const { entries, revision } = decodeBackup(bytes, name);
  const keys = [...entries].length;
  const thing = { file, cluster: name, revision, keys, bytes: bytes.length };
  if (flags.dryRun !== true) {
    await confirm(`Replace the registry of ${plain(name)} by ${keys} keys of ${file}?`, flags, 'refuse');
    await send(target, bytes, flags.reason);
  }
  const done = { ...thing, restored: flags.dryRun !== true };
  const lines: [string, string][] = [...linesOf(thing), ['RESTORED', done.restored ? 'yes' : 'no (dry run)']];
  print(await renderThing(flags.output, done, { name: file, lines }));
  return exitOk;
}

function read(file: string): Uint8Array {
  try {
    if (statSync(file).size > fileBytesMax) throw new RemusterError('TOO_LARGE', `${file} is too large for a backup`);
    return new Uint8Array(readFileSync(file));
  } catch (error) {
    if (isRemusterError(error)) throw error;
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new RemusterError('BAD_ARGUMENT', `cannot read ${JSON.stringify(file)} (${code})`);
  }
}

async function send(target: Target, bytes: Uint8Array, reason: string | undefined): Promise<void> {
  const id = randomBytes(16).toString('hex');
  for (let offset = 0; offset < bytes.length; offset += backupPartBytesMax) {
    const part = bytes.subarray(offset, offset + backupPartBytesMax);
    const last = offset + part.length === bytes.length;
    await sendPart(target, { id, offset, bytes: Buffer.from(part).toString('base64'), last, reason });
  }
}

/** Again only after a refusal that promises that nothing happened, such as a change of leaders. */
async function sendPart(target: Target, part: object): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await changeJson(target, 'POST', '/v1/registry/snapshot', part, partTimeoutMs);
      return;
    } catch (error) {
      const mayRepeat = isRemusterError(error) && error.row.retryable && error.row.stateChanged === 'no';
      if (!mayRepeat || attempt === partAttemptsMax) throw error;
      await pause(againMs);
    }
  }
}
