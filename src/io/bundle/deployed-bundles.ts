/**
 * Imports deployed bundles into this process. First tries one in a thread with bounded memory and time, so that a bad
 * bundle cannot end the node.
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
  /** Everything that the file exports. */
  load(path: string, done: Done<readonly unknown[]>): void;
  /** The modules that it exports; BUNDLE_INVALID says what is wrong with it, in the lines of its author. */
  check(path: string, done: Done<readonly ExportedModule[]>): void;
  close(): void;
};

/** What the thread is given, and what it answers. */
export type BundleCheckRequest = { readonly url: string; readonly folder: string; readonly entries: PackageEntries };
export type BundleCheckReply = { readonly modules: readonly ExportedModule[] } | { readonly fault: string };

/** Entries of the package by name, with the files of the copy that runs. */
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
  const withdraw = registerPackageEntries(folder, entries);
  return {
    sha256: sha256Hex,
    load: (path, done) => {
      // So that the stack of an error names the lines of the author.
      setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
      void ended(loadModules([join(root, path)]), done);
    },
    check: (path, done) => void ended(checked({ url: urlOf(path), folder, entries }, timeoutMs), done),
    close: withdraw,
  };
}

export function sha256Hex(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex');
}

/** What is imported from that folder gets our own copy of the package, wherever that is installed. */
export function registerPackageEntries(folder: string, entries: PackageEntries): () => void {
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      const url = Object.hasOwn(entries, specifier) ? entries[specifier] : undefined;
      const isOurs = context.parentURL?.startsWith(folder) === true;
      return url === undefined || !isOurs ? next(specifier, context) : { url, shortCircuit: true };
    },
  });
  return () => hooks.deregister();
}

async function ended<T>(work: Promise<T>, done: Done<T>): Promise<void> {
  let outcome: Outcome<T>;
  try {
    outcome = success(await work);
  } catch (error) {
    outcome = isRemusterError(error) ? { ok: false, error } : failure('BUNDLE_INVALID', String(error));
  }
  callInMicrotask(done, outcome);
}

async function checked(order: BundleCheckRequest, timeoutMs: number): Promise<readonly ExportedModule[]> {
  const worker = new Worker(entryUrl(import.meta.url, 'bundle-check-thread'), {
    workerData: order,
    execArgv: [],
    // What it prints while it is tried is not for the output of the node.
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: checkMemoryMb },
  });
  const { promise, resolve } = Promise.withResolvers<BundleCheckReply>();
  const timer = setTimeout(() => resolve({ fault: `it was not imported within ${timeoutMs} ms` }), timeoutMs);
  worker.once('message', (answer: BundleCheckReply) => resolve(answer));
  worker.once('error', (error: unknown) => resolve({ fault: error instanceof Error ? error.message : String(error) }));
  worker.once('exit', (code) => resolve({ fault: `it ended its process with code ${code} while it was imported` }));
  try {
    const answer = await promise;
    if ('modules' in answer) return answer.modules;
    throw new RemusterError('BUNDLE_INVALID', answer.fault);
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}
