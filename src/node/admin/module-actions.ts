/** Admin actions on modules. The receiving node checks a bundle before it writes to the registry. */
import { RemusterError, toPromise } from '../../base/errors.ts';
import type { DeployedModule } from '../../placement/modules/module-deployment.ts';
import { ModuleOperations } from '../../placement/modules/module-operations.ts';
import type { PoolUsingModule } from '../../placement/modules/module-reader.ts';
import type { ModuleRow, ModuleDetails } from '../../placement/modules/module-views.ts';
import { moduleLimits } from '../../placement/modules/module-records.ts';
import type { AdminContext } from './admin-context.ts';
import type { ModuleSync } from '../containers/module-sync.ts';
import { decodeBase64 } from '../../base/base64.ts';
import { type CommandArguments, integerArgument, reasonArgument } from '../control-plane/command-arguments.ts';

const versionBounds = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;
const base64CharactersMax = Math.ceil(moduleLimits.bundleBytesMax / 3) * 4;

function modulesOf({ control }: AdminContext): ModuleOperations {
  return new ModuleOperations(control.registry, control.clock);
}

/** `{code: base64, name?, sha256?, reason?}`. */
export async function deployModule(context: AdminContext): Promise<object> {
  const { control, args } = context;
  const reason = reasonArgument(args);
  const code = codeIn(args);
  const wanted = optionalText(args, 'name');
  const moduleSync = requireModuleSync(context);
  const { name, sha256 } = await toPromise<{ readonly name: string; readonly sha256: string }>((done) =>
    moduleSync.check(code, wanted, done),
  );
  const expected = optionalText(args, 'sha256') ?? sha256;
  if (expected !== sha256) throw new RemusterError('BUNDLE_INVALID', 'the code does not match sha256');
  const deployed = await toPromise<DeployedModule>((done) => modulesOf(context).deploy({ name, sha256, code }, done));
  const { version, bytes } = deployed;
  if (deployed.deployed) control.recordAdminEvent('module-deploy', { module: name, version, bytes, sha256, reason });
  const { deployedWallMs, ...fields } = deployed;
  return { ...fields, deployedAt: new Date(deployedWallMs).toISOString() };
}

export async function listModules(context: AdminContext): Promise<object> {
  return { items: await toPromise<readonly ModuleRow[]>((done) => modulesOf(context).list(done)) };
}

export async function showModule(context: AdminContext): Promise<object> {
  return await toPromise<ModuleDetails>((done) => modulesOf(context).show(moduleIn(context.args), done));
}

/** `{version?, reason?}`: moves all pools of the module to that version, by default the newest. */
export async function rollModule(context: AdminContext): Promise<object> {
  const { control, args } = context;
  const name = moduleIn(args);
  const version = integerArgument(args, 'version', versionBounds);
  const reason = reasonArgument(args);
  const pools = await toPromise<readonly PoolUsingModule[]>((done) => modulesOf(context).roll(name, version, done));
  const names = pools.map((pool) => pool.name);
  control.recordAdminEvent('module-roll', { module: name, version: version ?? 'newest', pools: names, reason });
  return { name, pools: names };
}

/**
 * The module version of a new pool: the newest deployed one, or 0 for modules that nodes load from their configuration.
 * If no node can run the module, `known` lists those that some node can.
 */
export async function moduleVersionForPool(
  context: AdminContext,
  name: string,
): Promise<{ readonly version: number } | { readonly known: readonly string[] }> {
  const own = context.core.containers?.modules;
  // Without deployed modules, as in simulations, there is no version to choose.
  if (own === undefined || context.core.containers?.moduleSync === undefined) return { version: 0 };
  const newest = await toPromise<number | undefined>((done) => modulesOf(context).newestVersion(name, done));
  if (newest !== undefined) return { version: newest };
  if (own.get(name, 0) !== undefined) return { version: 0 };
  const others = await toPromise<ReadonlySet<string>>((done) => modulesOf(context).knownNames(done));
  return others.has(name) ? { version: 0 } : { known: [...new Set([...own.names(), ...others])].toSorted() };
}

function requireModuleSync({ core }: AdminContext): ModuleSync {
  const moduleSync = core.containers?.moduleSync;
  if (moduleSync !== undefined) return moduleSync;
  throw new RemusterError('PRECONDITION', 'this node does not take part in containers', 'no');
}

function moduleIn({ module }: CommandArguments): string {
  if (typeof module === 'string') return module;
  throw new RemusterError('BAD_ARGUMENT', 'module is missing');
}

function optionalText(args: CommandArguments, field: string): string | undefined {
  const value = args[field];
  if (value === undefined || typeof value === 'string') return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} must be text`);
}

function codeIn({ code }: CommandArguments): Uint8Array {
  if (typeof code !== 'string') throw new RemusterError('BAD_ARGUMENT', 'the body must be {"code": base64, "name"?}');
  if (code.length > base64CharactersMax)
    throw new RemusterError('TOO_LARGE', `the bundle exceeds the limit of ${moduleLimits.bundleBytesMax} bytes`, 'no');
  return decodeBase64(code);
}
