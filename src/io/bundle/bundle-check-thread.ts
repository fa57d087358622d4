/** Entry file of the check thread: imports a bundle once and reports its modules or the error. Calls nothing of it. */
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

assert(parentPort !== null, 'bundle-check-main is started by bundles.ts');
const port = parentPort;
const { url, folder, entries } = workerData as BundleCheckRequest;
const faultCharactersMax = 1_000;

setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
registerPackageEntries(folder, entries);
port.postMessage(await answer());

async function answer(): Promise<BundleCheckReply> {
  try {
    const namespace = (await import(url)) as object;
    return { modules: Object.values(namespace).filter(isModuleLike).map(described) };
  } catch (error) {
    return { fault: sourceMappedMessage(error).slice(0, faultCharactersMax) };
  }
}

type ModuleLike = { readonly name: string; readonly methods: Readonly<Record<string, unknown>> };

function isModuleLike(value: unknown): value is ModuleLike {
  if (typeof value !== 'object' || value === null) return false;
  const { name, methods } = value as Partial<ModuleLike>;
  return typeof name === 'string' && typeof methods === 'object' && methods !== null;
}

/** What `module()` would have refused is refused here, too. */
function described({ name, methods }: ModuleLike): ExportedModule {
  if (!namePattern.test(name)) throw new TypeError(`"${name}" cannot be the name of a module`);
  const names = Object.keys(methods);
  if (names.length === 0) throw new TypeError(`the module ${name} has no method`);
  for (const [method, spec] of Object.entries(methods)) {
    const run: unknown = typeof spec === 'object' && spec !== null && 'run' in spec ? spec.run : spec;
    if (typeof run !== 'function') throw new TypeError(`the method ${method} of ${name} is no function`);
  }
  return { name, methods: names };
}
