/**
 * Entry file of the bundle check thread: imports a bundle once and reports its modules or an error. Calls no method.
 */
import { setSourceMapsSupport } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { assert } from '../../base/assert.ts';
import { namePattern } from '../../base/ids.ts';
import { sourceMappedMessage } from './source-mapped-error.ts';
import {
  type BundleCheckReply,
  type BundleCheckRequest,
  type ExportedModule,
  registerPackageEntries,
} from './deployed-bundles.ts';

assert(parentPort !== null, 'bundle-check-thread is started by deployed-bundles.ts');
const port = parentPort;
const { url, folder, entries } = workerData as BundleCheckRequest;
const errorCharactersMax = 1_000;

setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
registerPackageEntries(folder, entries);
port.postMessage(await checkBundle());

async function checkBundle(): Promise<BundleCheckReply> {
  try {
    const namespace = (await import(url)) as object;
    return { modules: Object.values(namespace).filter(isModuleLike).map(describeModule) };
  } catch (error) {
    return { error: sourceMappedMessage(error).slice(0, errorCharactersMax) };
  }
}

type ModuleLike = { readonly name: string; readonly methods: Readonly<Record<string, unknown>> };

function isModuleLike(value: unknown): value is ModuleLike {
  if (typeof value !== 'object' || value === null) return false;
  const { name, methods } = value as Partial<ModuleLike>;
  return typeof name === 'string' && typeof methods === 'object' && methods !== null;
}

/** Refuses what `module()` refuses. */
function describeModule({ name, methods }: ModuleLike): ExportedModule {
  if (!namePattern.test(name)) throw new TypeError(`"${name}" cannot be the name of a module`);
  const names = Object.keys(methods);
  if (names.length === 0) throw new TypeError(`the module ${name} has no method`);
  for (const [method, spec] of Object.entries(methods)) {
    const run: unknown = typeof spec === 'object' && spec !== null && 'run' in spec ? spec.run : spec;
    if (typeof run !== 'function') throw new TypeError(`the method ${method} of the module ${name} is not a function`);
  }
  return { name, methods: names };
}
