/**
 * Imports the modules that the configuration of a node names (files or packages), within a deadline. Does not validate
 * the exports.
 */
import { existsSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RemusterError } from '../../base/errors.ts';

const loadTimeoutMs = 30_000;
const reasonCharactersMax = 500;

/**
 * A path is relative to `from`; if there is no such file, it is the name of a package that is installed there. Fails
 * with BAD_ARGUMENT, which names the path and the reason.
 */
export async function loadModules(
  paths: readonly string[],
  from: string = process.cwd(),
  timeoutMs: number = loadTimeoutMs,
): Promise<readonly unknown[]> {
  const exported = new Set<unknown>();
  for (const path of paths) for (const value of await exportsOf(path, from, timeoutMs)) exported.add(value);
  return [...exported];
}

async function exportsOf(path: string, from: string, timeoutMs: number): Promise<readonly unknown[]> {
  let namespace: object;
  try {
    namespace = await withDeadline(importPath(path, from), timeoutMs);
  } catch (error) {
    throw unloadable(path, reasonOf(error));
  }
  const values = Object.values(namespace);
  if (values.length === 0) throw unloadable(path, 'it exports nothing');
  return values;
}

function importPath(path: string, from: string): Promise<object> {
  const file = resolve(from, path);
  const isFile = existsSync(file);
  if (isFile || path.startsWith('.') || path.startsWith('/')) return importUrl(pathToFileURL(file).href);
  return importPackage(path, from);
}

async function importUrl(url: string): Promise<object> {
  return (await import(url)) as object;
}

/**
 * Resolves the package as a file in folder `from` would: it is installed beside the configuration, not beside Remuster.
 */
async function importPackage(name: string, from: string): Promise<object> {
  const parentURL = pathToFileURL(join(resolve(from), 'modules.js')).href;
  const alias = `remuster-package:${name}`;
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === alias ? next(name, { ...context, parentURL }) : next(specifier, context),
  });
  try {
    return await importUrl(alias);
  } finally {
    hooks.deregister();
  }
}

async function withDeadline<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`it did not load within ${timeoutMs} ms`)), timeoutMs);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

function unloadable(path: string, reason: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', `the module ${JSON.stringify(path)} cannot be loaded: ${reason}`);
}

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replaceAll(/\s+/g, ' ').trim().slice(0, reasonCharactersMax);
}
