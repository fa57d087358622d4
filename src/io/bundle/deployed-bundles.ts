/**
 * Imports deployed bundles into this process. `check` imports one in a thread with bounded memory and time first, so
 * that a bad bundle cannot end the node.
 */
import { hash } from 'node:crypto';
import { registerHooks, setSourceMapsSupport } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import { callInMicrotask } from '../system/callback.ts';
import { loadModules } from './module-loader.ts';
import { entryUrl } from '../system/entry-url.ts';

export type ExportedModule = { readonly name: string; readonly methods: readonly string[] };

export type DeployedBundles = {
  sha256(bytes: Uint8Array): string;
  /** Returns all exports of the file. */
  load(path: string, done: Done<readonly unknown[]>): void;
  /** Returns the exported modules, or BUNDLE_INVALID with the line of the author's source. */
  check(path: string, done: Done<readonly ExportedModule[]>): void;
  close(): void;
};

/** Input and output of the check thread. */
export type BundleCheckRequest = { readonly url: string; readonly folder: string; readonly entries: PackageEntries };
export type BundleCheckReply = { readonly modules: readonly ExportedModule[] } | { readonly error: string };

/** URLs of the entries of the running package, by import name. */
export type PackageEntries = Readonly<Record<string, string>>;

const checkTimeoutMs = 10_000;
const checkMemoryMb = 256;

export function openDeployedBundles(
  root: string,
  entries: PackageEntries,
  timeoutMs: number = checkTimeoutMs,
): DeployedBundles {
  const urlOf = (path: string): string => pathToFileURL(join(root, path)).href;
  const folder = urlOf('modules/');
  const unregister = registerPackageEntries(folder, entries);
  return {
    sha256: sha256Hex,
    load: (path, done) => {
      // Stack traces then name the lines of the author.
      setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
      void report(loadModules([join(root, path)]), done);
    },
    check: (path, done) => void report(checkInThread({ url: urlOf(path), folder, entries }, timeoutMs), done),
    close: unregister,
  };
}

export function sha256Hex(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex');
}

/** Modules in `folder` import the running copy of the package, wherever that is installed. */
export function registerPackageEntries(folder: string, entries: PackageEntries): () => void {
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      const url = Object.hasOwn(entries, specifier) ? entries[specifier] : undefined;
      const isInFolder = context.parentURL?.startsWith(folder) === true;
      return url === undefined || !isInFolder ? next(specifier, context) : { url, shortCircuit: true };
    },
  });
  return () => hooks.deregister();
}

async function report<T>(work: Promise<T>, done: Done<T>): Promise<void> {
  let outcome: Outcome<T>;
  try {
    outcome = success(await work);
  } catch (error) {
    outcome = isRemusterError(error) ? { ok: false, error } : failure('BUNDLE_INVALID', String(error));
  }
  callInMicrotask(done, outcome);
}

async function checkInThread(request: BundleCheckRequest, timeoutMs: number): Promise<readonly ExportedModule[]> {
  const worker = new Worker(entryUrl(import.meta.url, 'bundle-check-thread'), {
    workerData: request,
    execArgv: [],
    // Keeps the output of the bundle out of the output of the node.
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: checkMemoryMb },
  });
  const { promise, resolve } = Promise.withResolvers<BundleCheckReply>();
  const timer = setTimeout(() => resolve({ error: `it was not imported within ${timeoutMs} ms` }), timeoutMs);
  worker.once('message', (reply: BundleCheckReply) => resolve(reply));
  worker.once('error', (error: unknown) => resolve({ error: error instanceof Error ? error.message : String(error) }));
  worker.once('exit', (code) => resolve({ error: `its import ended its process with exit code ${code}` }));
  try {
    const reply = await promise;
    if ('modules' in reply) return reply.modules;
    throw new RemusterError('BUNDLE_INVALID', reply.error);
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}
