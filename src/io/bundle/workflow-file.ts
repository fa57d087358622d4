/**
 * Bundles a workflow file, names it by its hash and imports it to read the workflows. The imported bytes are those that
 * will run. Starts no workflow. Imported code stays in the process, so the same bundle is imported only once: a process
 * that submits a file all day does not grow.
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
const errorCharactersMax = 1_000;
const importedMax = 100;
/** Imported bundles by hash and package entries. */
const importedBundles = new BoundedLru<string, Promise<object>>(importedMax);

/** Fails with BUNDLE_INVALID, which names the author's line, or with TOO_LARGE. */
export async function openWorkflowFile(file: string, entries: PackageEntries, bytesMax: number): Promise<WorkflowFile> {
  if (!existsSync(file)) throw new RemusterError('BAD_ARGUMENT', `there is no file ${JSON.stringify(file)}`);
  const code = await bundleModule(file);
  if (code.length > bytesMax)
    throw new RemusterError(
      'TOO_LARGE',
      `the bundle of ${file} has ${code.length} bytes, at most ${bytesMax} are allowed`,
    );
  const sha256 = createHash('sha256').update(code).digest('hex');
  return { sha256, code, exports: await importOnce(sha256, code, entries) };
}

function importOnce(sha256: string, code: Uint8Array, entries: PackageEntries): Promise<object> {
  const key = `${sha256} ${JSON.stringify(entries)}`;
  const known = importedBundles.get(key);
  if (known !== undefined) return known;
  const importing = importCode(code, entries);
  importedBundles.set(key, importing);
  // A failed import is retried by the next call: the code may depend on something that changes.
  importing.catch(() => void importedBundles.delete(key));
  return importing;
}

async function importCode(code: Uint8Array, entries: PackageEntries): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'remuster-workflow-'));
  const url = pathToFileURL(join(folder, 'workflows.mjs')).href;
  const unregister = registerPackageEntries(pathToFileURL(folder).href, entries);
  // Stack traces then name the lines of the author.
  setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`it was not imported within ${importTimeoutMs} ms`)),
    importTimeoutMs,
  );
  try {
    await writeFile(join(folder, 'workflows.mjs'), code);
    return await Promise.race([import(url) as Promise<object>, timeout]);
  } catch (error) {
    throw new RemusterError('BUNDLE_INVALID', sourceMappedMessage(error).slice(0, errorCharactersMax));
  } finally {
    clearTimeout(timer);
    unregister();
    await rm(folder, { recursive: true, force: true });
  }
}
