/**
 * `remuster pool export NAME --out FILE` and `pool import NAME FILE`: exports a pool to one file with checksums and
 * imports it into a new pool. Each container is exported as of one moment.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { errorTable, type ErrorCode } from '../../base/error-table.ts';
import {
  exportFormat,
  type ExportHead,
  exportKind,
  ExportReader,
  type ExportRow,
} from '../../containers/pool-export.ts';
import type { PoolDetails } from '../../placement/operations/pool-views.ts';
import { exitOk } from '../command/exit.ts';
import { sendJson, getJson, postJson, postLines, withQuery } from '../command/http-client.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { pollUntil } from '../command/poll.ts';

type Flags = TargetFlags & { readonly output: OutputFormat };

const attemptsMax = 10;
const retryDelayMs = 500;
const pageRowsMax = 1_000;
const pageCharactersMax = 4_000_000;
const pageTimeoutMs = 70_000;

function poolPath(name: string, rest = ''): string {
  return `/v1/pools/${encodeURIComponent(name)}${rest}`;
}

async function fetchPool(target: ClusterTarget, name: string): Promise<PoolDetails> {
  return (await getJson(target, withQuery(poolPath(name), { limit: '1' }))) as PoolDetails;
}

/** Retries a retryable error, such as that of a container that moves. */
async function withRetries<T>(what: string, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isRemusterError(error) || !error.row.retryable || attempt === attemptsMax) throw error;
      printNotice(stripControls(`${what}: ${error.code}, retrying`));
      await pause(retryDelayMs * attempt);
    }
  }
}

export async function poolExportCommand(name: string, flags: Flags & { readonly out: string }): Promise<number> {
  const target = await resolveTarget(flags);
  const pool = await fetchPool(target, name);
  const draft = `${flags.out}.partial`;
  const file = await open(draft, 'w', 0o600);
  try {
    const rows = await writeExport(target, pool, new LineFile(file));
    await file.sync();
    await file.close();
    await rename(draft, flags.out);
    const result = { pool: name, file: flags.out, containers: pool.containerCount, rows };
    const lines: [string, string][] = [
      ['POOL', name],
      ['FILE', flags.out],
      ['CONTAINERS', String(pool.containerCount)],
      ['ROWS', String(rows)],
    ];
    printData(await renderObject(flags.output, result, { name, lines }));
    return exitOk;
  } catch (error) {
    await file.close();
    await rm(draft, { force: true });
    throw error;
  }
}

/** A file that grows by lines and can be truncated to an earlier length. */
class LineFile {
  readonly #file: FileHandle;
  #bytes = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async write(text: string): Promise<void> {
    const line = Buffer.from(`${text}\n`);
    await this.#file.write(line, 0, line.length, this.#bytes);
    this.#bytes += line.length;
  }

  async truncate(bytes: number): Promise<void> {
    await this.#file.truncate(bytes);
    this.#bytes = bytes;
  }
}

async function writeExport(target: ClusterTarget, pool: PoolDetails, lines: LineFile): Promise<number> {
  const { name, module, moduleVersion, containerCount: containers, copies, durability, restart, params } = pool;
  const facts = { pool: name, module, moduleVersion, containers, copies, durability, restart, params };
  const exportedAt = new Date().toISOString();
  const head: ExportHead = { export: exportKind, format: exportFormat, ...facts, exportedAt };
  await lines.write(JSON.stringify(head));
  let rows = 0;
  for (let id = 0; id < containers; id++) {
    const start = lines.bytes;
    rows += await withRetries(`container ${id}`, async () => {
      await lines.truncate(start);
      return await writeContainer(target, name, id, lines);
    });
  }
  await lines.write(JSON.stringify({ complete: true, containers }));
  return rows;
}

async function writeContainer(target: ClusterTarget, name: string, id: number, lines: LineFile): Promise<number> {
  await lines.write(JSON.stringify({ container: id }));
  for await (const line of postLines(target, poolPath(name, `/export/${id}`))) {
    // Only these two kinds of lines are parsed; a row begins differently.
    if (line.startsWith('{"error"')) throw errorOf(line);
    await lines.write(line);
    if (line.startsWith('{"end"')) return (JSON.parse(line) as { readonly rows: number }).rows;
  }
  throw new RemusterError('UNREACHABLE', `the reply ended before container ${id} was complete`);
}

function errorOf(line: string): RemusterError {
  const { code, message } = (JSON.parse(line) as { error: { code: string; message: string } }).error;
  return new RemusterError(Object.hasOwn(errorTable, code) ? (code as ErrorCode) : 'INTERNAL', message);
}

/** Yields the lines of the file; the reader verifies all of them in order. */
async function* checkedLines(path: string): AsyncGenerator<ReturnType<ExportReader['take']>> {
  const reader = new ExportReader();
  const stream = createReadStream(path);
  try {
    for await (const line of createInterface({ input: stream, crlfDelay: Infinity })) yield reader.take(line);
  } catch (error) {
    if (isRemusterError(error)) throw error;
    throw new RemusterError('BAD_ARGUMENT', `cannot read ${path}: ${error instanceof Error ? error.message : ''}`);
  } finally {
    stream.destroy();
  }
  reader.finish();
}

type ImportFlags = Flags & { readonly timeout: string; readonly reason?: string };

export async function poolImportCommand(name: string, path: string, flags: ImportFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const { head, rows } = await verifyFile(path);
  await preparePool(target, name, head, flags);
  await sendRows(target, name, head, path);
  const result = { pool: name, file: path, containers: head.containers, rows };
  const lines: [string, string][] = [
    ['POOL', name],
    ['FROM', `${head.pool}, exported ${head.exportedAt}`],
    ['CONTAINERS', String(head.containers)],
    ['ROWS', String(rows)],
  ];
  printData(await renderObject(flags.output, result, { name, lines }));
  return exitOk;
}

/** Verifies the whole file before anything is written. */
async function verifyFile(path: string): Promise<{ readonly head: ExportHead; readonly rows: number }> {
  let head: ExportHead | undefined;
  let rows = 0;
  for await (const line of checkedLines(path)) {
    if ('export' in line) head = line;
    if ('end' in line) rows += line.rows;
  }
  if (head === undefined) throw new RemusterError('STORE_CORRUPT', `${path} is empty`);
  return { head, rows };
}

/** Checks that the pool matches the exported one, or creates it; waits until all containers serve. */
async function preparePool(target: ClusterTarget, name: string, head: ExportHead, flags: ImportFlags): Promise<void> {
  const { module, containers, copies, durability, restart, params } = head;
  let pool: PoolDetails | undefined;
  try {
    pool = await fetchPool(target, name);
  } catch (error) {
    if (!isRemusterError(error, 'UNKNOWN_POOL')) throw error;
    const spec = { name, module, containers, copies, durability, restart, params, force: true, reason: flags.reason };
    await postJson(target, '/v1/pools', spec);
  }
  if (pool !== undefined && (pool.module !== module || pool.containerCount !== containers)) {
    const existing = `pool ${name} has ${pool.containerCount} containers of ${pool.module}`;
    throw new RemusterError('PRECONDITION', `${existing}, but the file has ${containers} of ${module}`, 'no');
  }
  const { isDone, text } = await pollUntil(flags.timeout, async () => {
    const { serving, containerCount } = await fetchPool(target, name);
    const text = `${serving} of ${containerCount} containers serve`;
    return { value: undefined, isDone: serving === containerCount, text };
  });
  if (!isDone) throw new RemusterError('DEADLINE', `pool ${name} is not ready: ${text}`);
}

/** Sends all rows in one session, so that each container can detect the write of another client. */
async function sendRows(target: ClusterTarget, name: string, head: ExportHead, path: string): Promise<void> {
  const session = `import-${randomBytes(8).toString('hex')}`;
  const { module, containers } = head;
  let page: ExportRow[] = [];
  let [container, pages, characters, calls] = [0, 0, 0, 0];
  const flush = async (): Promise<void> => {
    const body = { callId: `${session}/0/${++calls}`, first: pages === 0, rows: page, module, containers };
    await withRetries(`container ${container}`, () =>
      sendJson(target, 'POST', poolPath(name, `/import/${container}`), body, pageTimeoutMs),
    );
    pages += 1;
    page = [];
    characters = 0;
  };
  for await (const line of checkedLines(path)) {
    if ('container' in line) [container, pages] = [line.container, 0];
    else if ('v' in line) {
      const isFull = page.length >= pageRowsMax || characters + line.v.length > pageCharactersMax;
      if (isFull && page.length > 0) await flush();
      page.push(line);
      characters += line.v.length;
    } else if ('end' in line && (page.length > 0 || pages === 0)) await flush();
  }
}
