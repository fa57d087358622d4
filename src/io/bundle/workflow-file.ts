/**
 * Bundles a workflow file, names it by hash, imports it once to read its facts. What is read is what will run. Starts
 * nothing.
 *
 * Code that was imported stays in the process for ever: the same code is not imported again, so that whoever submits a
 * file all day long does not grow.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { setSourceMapsSupport } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { RemusterError } from '../../base/errors.ts';
import { sourceMappedMessage } from './source-mapped-error.ts';
import { bundleModule } from './bundler.ts';
import { type PackageEntries, registerPackageEntries } from './deployed-bundles.ts';

export type WorkflowFile = { readonly sha256: string; readonly code: Uint8Array; readonly exports: object };

const importTimeoutMs = 30_000;
const faultCharactersMax = 1_000;
const knownMax = 100;
/** By hash, and what the code means by the names of our package. */
const known = new BoundedLru<string, Promise<object>>(knownMax);

/** BUNDLE_INVALID names what is wrong, in the lines of the author; TOO_LARGE. */
export async function openWorkflowFile(file: string, entries: PackageEntries, bytesMax: number): Promise<WorkflowFile> {
  if (!existsSync(file)) throw new RemusterError('BAD_ARGUMENT', `there is no file ${JSON.stringify(file)}`);
  const code = await bundleModule(file);
  if (code.length > bytesMax)
    throw new RemusterError('TOO_LARGE', `the bundle of ${file} has ${code.length} bytes, and ${bytesMax} may be`);
  const sha256 = createHash('sha256').update(code).digest('hex');
  return { sha256, code, exports: await importedOnce(sha256, code, entries) };
}

function importedOnce(sha256: string, code: Uint8Array, entries: PackageEntries): Promise<object> {
  const key = `${sha256} ${JSON.stringify(entries)}`;
  const before = known.get(key);
  if (before !== undefined) return before;
  const importing = imported(code, entries);
  known.set(key, importing);
  // It may depend on what changes: the next one tries again.
  importing.catch(() => void known.delete(key));
  return importing;
}

async function imported(code: Uint8Array, entries: PackageEntries): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'remuster-workflow-'));
  const url = pathToFileURL(join(folder, 'workflows.mjs')).href;
  const withdraw = registerPackageEntries(pathToFileURL(folder).href, entries);
  // So that the stack of an error names the lines of the author.
  setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`it was not imported within ${importTimeoutMs} ms`)),
    importTimeoutMs,
  );
  try {
    await writeFile(join(folder, 'workflows.mjs'), code);
    return await Promise.race([import(url) as Promise<object>, late]);
  } catch (error) {
    throw new RemusterError('BUNDLE_INVALID', sourceMappedMessage(error).slice(0, faultCharactersMax));
  } finally {
    clearTimeout(timer);
    withdraw();
    await rm(folder, { recursive: true, force: true });
  }
}
