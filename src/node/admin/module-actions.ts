/** Admin actions on modules. The receiving node tries a bundle before anything reaches the registry. */
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
export async function deployModule(desk: AdminContext): Promise<object> {
  const { control, args } = desk;
  const reason = reasonArgument(args);
  const code = codeIn(args);
  const wanted = optionalText(args, 'name');
  const keeper = keeperOf(desk);
  const { name, sha256 } = await toPromise<{ readonly name: string; readonly sha256: string }>((done) =>
    keeper.check(code, wanted, done),
  );
  const announced = optionalText(args, 'sha256') ?? sha256;
  if (announced !== sha256) throw new RemusterError('BUNDLE_INVALID', 'the code does not match its hash');
  const deployed = await toPromise<DeployedModule>((done) => modulesOf(desk).deploy({ name, sha256, code }, done));
  const { version, bytes } = deployed;
  if (deployed.deployed) control.recordAdminEvent('module-deploy', { module: name, version, bytes, sha256, reason });
  const { deployedWallMs, ...shown } = deployed;
  return { ...shown, deployedAt: new Date(deployedWallMs).toISOString() };
}

export async function listModules(desk: AdminContext): Promise<object> {
  return { items: await toPromise<readonly ModuleRow[]>((done) => modulesOf(desk).list(done)) };
}

export async function showModule(desk: AdminContext): Promise<object> {
  return await toPromise<ModuleDetails>((done) => modulesOf(desk).show(moduleIn(desk.args), done));
}

/** `{version?, reason?}`: its pools are to run that one, or the newest. */
export async function rollModule(desk: AdminContext): Promise<object> {
  const { control, args } = desk;
  const name = moduleIn(args);
  const version = integerArgument(args, 'version', versionBounds);
  const reason = reasonArgument(args);
  const pools = await toPromise<readonly PoolUsingModule[]>((done) => modulesOf(desk).roll(name, version, done));
  const names = pools.map((pool) => pool.name);
  control.recordAdminEvent('module-roll', { module: name, version: version ?? 'newest', pools: names, reason });
  return { name, pools: names };
}

/**
 * With what a new pool of that module begins: the newest version that was deployed, or 0 for what nodes have loaded by
 * themselves. Undefined when nobody can run such a module; `known` is then what somebody can.
 */
export async function moduleVersionForPool(
  desk: AdminContext,
  name: string,
): Promise<{ readonly version: number } | { readonly known: readonly string[] }> {
  const own = desk.core.containers?.modules;
  // A node without deployed modules, as in simulations, knows of no others.
  if (own === undefined || desk.core.containers?.moduleSync === undefined) return { version: 0 };
  const newest = await toPromise<number | undefined>((done) => modulesOf(desk).newestVersion(name, done));
  if (newest !== undefined) return { version: newest };
  if (own.get(name, 0) !== undefined) return { version: 0 };
  const others = await toPromise<ReadonlySet<string>>((done) => modulesOf(desk).knownNames(done));
  return others.has(name) ? { version: 0 } : { known: [...new Set([...own.names(), ...others])].toSorted() };
}

function keeperOf({ core }: AdminContext): ModuleSync {
  const moduleSync = core.containers?.moduleSync;
  if (moduleSync !== undefined) return moduleSync;
  throw new RemusterError('PRECONDITION', 'this node does not take part in containers', 'no');
}

function moduleIn({ module }: CommandArguments): string {
  if (typeof module === 'string') return module;
  throw new RemusterError('BAD_ARGUMENT', 'say which module');
}

function optionalText(words: CommandArguments, field: string): string | undefined {
  const value = words[field];
  if (value === undefined || typeof value === 'string') return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} is a text`);
}

function codeIn({ code }: CommandArguments): Uint8Array {
  if (typeof code !== 'string') throw new RemusterError('BAD_ARGUMENT', 'the body must be {"code": base64, "name"?}');
  if (code.length > base64CharactersMax)
    throw new RemusterError('TOO_LARGE', `a bundle has at most ${moduleLimits.bundleBytesMax} bytes`, 'no');
  return decodeBase64(code);
}
