/**
 * `remuster registry snapshot save|restore FILE`: saves the registry to one file with checksums and restores it. A
 * damaged file, or that of another cluster, is never sent.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { type BackupPart, backupName, backupPartBytesMax } from '../../node/control-plane/registry-backups.ts';
import { decodeBackup } from '../../registry/replica/registry-backup.ts';
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk } from '../command/exit.ts';
import { sendJson, getJson, withQuery } from '../command/http-client.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import type { LeaderInfo } from '../cluster/status.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';

const fileBytesMax = 134_217_728;
const partTimeoutMs = 60_000;
const attemptsMax = 3;
const retryDelayMs = 500;
const partAttemptsMax = 20;

export async function registrySnapshotSaveCommand(
  file: string,
  flags: TargetFlags,
  format: OutputFormat,
): Promise<number> {
  const target = await resolveTarget(flags);
  const name = await registryName(target);
  const { bytes, revision } = await fetchBackup(target);
  const keys = [...decodeBackup(bytes, name).entries].length;
  writeBackup(file, bytes);
  const result = { file, cluster: name, revision, keys, bytes: bytes.length };
  printData(await renderObject(format, result, { name: file, lines: snapshotLines(result) }));
  return exitOk;
}

type SnapshotInfo = {
  readonly file: string;
  readonly cluster: string;
  readonly revision: number;
  readonly keys: number;
  readonly bytes: number;
};

function snapshotLines({ file, cluster, revision, keys, bytes }: SnapshotInfo): [string, string][] {
  return [
    ['FILE', file],
    ['CLUSTER', cluster],
    ['REVISION', String(revision)],
    ['KEYS', String(keys)],
    ['BYTES', String(bytes)],
  ];
}

async function registryName(target: ClusterTarget): Promise<string> {
  const { cluster } = (await getJson(target, '/v1/status')) as { cluster: string };
  const { dc } = (await getJson(target, '/v1/leader')) as LeaderInfo;
  return backupName(cluster, dc);
}

type FetchedBackup = { readonly bytes: Uint8Array; readonly revision: number };

/**
 * Starts again when the leader changes meanwhile: each leader has its own backup. Only a later part can tell that; a
 * PRECONDITION about the first one is permanent.
 */
export async function fetchBackup(target: ClusterTarget): Promise<FetchedBackup> {
  for (let attempt = 1; ; attempt++) {
    const first = await fetchPart(target, {});
    try {
      return await fetchRest(target, first);
    } catch (error) {
      if (!isRemusterError(error, 'PRECONDITION') || attempt === attemptsMax) throw error;
      printNotice(`retrying: ${error.message}`);
    }
  }
}

async function fetchRest(target: ClusterTarget, first: BackupPart): Promise<FetchedBackup> {
  const parts: Uint8Array[] = [];
  let part = first;
  for (let offset = 0; ;) {
    const bytes = Buffer.from(part.bytes, 'base64');
    parts.push(bytes);
    offset += bytes.length;
    if (offset > fileBytesMax || part.size > fileBytesMax)
      throw new RemusterError('TOO_LARGE', `the backup has more than ${fileBytesMax} bytes`, 'no');
    if (part.last) return { bytes: new Uint8Array(Buffer.concat(parts)), revision: part.revision };
    if (bytes.length === 0) throw new RemusterError('MALFORMED', 'the node sent an empty part');
    part = await fetchPart(target, { id: part.id, offset: String(offset) });
  }
}

async function fetchPart(target: ClusterTarget, query: Readonly<Record<string, string>>): Promise<BackupPart> {
  return (await getJson(target, withQuery('/v1/registry/snapshot', query), partTimeoutMs)) as BackupPart;
}

/** The file exists complete and durable, or not at all. Only its owner may read it. */
function writeBackup(file: string, bytes: Uint8Array): void {
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

export type SnapshotRestoreFlags = TargetFlags &
  ConfirmFlags & { readonly output: OutputFormat; readonly dryRun?: true; readonly reason?: string };

export async function registrySnapshotRestoreCommand(file: string, flags: SnapshotRestoreFlags): Promise<number> {
  const bytes = readBackup(file);
  const target = await resolveTarget(flags);
  const name = await registryName(target);
  const { entries, revision } = decodeBackup(bytes, name);
  const keys = [...entries].length;
  const result = { file, cluster: name, revision, keys, bytes: bytes.length };
  if (flags.dryRun !== true) {
    await confirm(`Replace the registry of ${stripControls(name)} by the ${keys} keys of ${file}?`, flags, 'refuse');
    await sendBackup(target, bytes, flags.reason);
  }
  const done = { ...result, restored: flags.dryRun !== true };
  const lines: [string, string][] = [...snapshotLines(result), ['RESTORED', done.restored ? 'yes' : 'no (dry run)']];
  printData(await renderObject(flags.output, done, { name: file, lines }));
  return exitOk;
}

function readBackup(file: string): Uint8Array {
  try {
    if (statSync(file).size > fileBytesMax)
      throw new RemusterError('TOO_LARGE', `${file} has more than ${fileBytesMax} bytes, which no backup has`, 'no');
    return new Uint8Array(readFileSync(file));
  } catch (error) {
    if (isRemusterError(error)) throw error;
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new RemusterError('BAD_ARGUMENT', `cannot read ${JSON.stringify(file)} (${code})`);
  }
}

async function sendBackup(target: ClusterTarget, bytes: Uint8Array, reason: string | undefined): Promise<void> {
  const id = randomBytes(16).toString('hex');
  for (let offset = 0; offset < bytes.length; offset += backupPartBytesMax) {
    const part = bytes.subarray(offset, offset + backupPartBytesMax);
    const last = offset + part.length === bytes.length;
    await sendPart(target, { id, offset, bytes: Buffer.from(part).toString('base64'), last, reason });
  }
}

/** Retries only an error that is retryable and has changed nothing, such as a leader change. */
async function sendPart(target: ClusterTarget, part: object): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await sendJson(target, 'POST', '/v1/registry/snapshot', part, partTimeoutMs);
      return;
    } catch (error) {
      const isRetryable = isRemusterError(error) && error.row.retryable && error.stateChanged === 'no';
      if (!isRetryable || attempt === partAttemptsMax) throw error;
      await pause(retryDelayMs);
    }
  }
}
