/** Admin actions on pools and containers. One read or one guarded write; the leader executes a migration. */
import { RemusterError, toPromise } from '../../base/errors.ts';
import { type CreatedPool, PoolOperations } from '../../placement/operations/pool-operations.ts';
import type { ContainerExplanation } from '../../placement/operations/container-explanation.ts';
import type { PoolRequest } from '../../placement/operations/pool-spec.ts';
import type { ContainerView, PoolDescription, PoolRow, PoolDetails } from '../../placement/operations/pool-views.ts';
import { type AdminContext, sendLeaderCommand, requireSameDatacenter } from './admin-context.ts';
import {
  type CommandArguments,
  integerArgument,
  booleanArgument,
  reasonArgument,
} from '../control-plane/command-arguments.ts';
import { requireMember } from '../membership/member-rows.ts';
import { moduleVersionForPool } from './module-actions.ts';
import { createPoolAndAwaitTable } from './pool-creation.ts';

const numberBounds = { min: 0, max: Number.MAX_SAFE_INTEGER } as const;
const creationFields: ReadonlySet<string> = new Set([
  ...['name', 'module', 'containers', 'copies', 'durability', 'restart', 'params', 'force', 'reason'],
]);

function poolsOf({ control }: AdminContext): PoolOperations {
  return new PoolOperations(control.registry, control.clock);
}

export async function listPools(context: AdminContext): Promise<object> {
  return { items: await toPromise<readonly PoolRow[]>((done) => poolsOf(context).list(done)) };
}

export async function showPool(context: AdminContext): Promise<object> {
  const { args } = context;
  const from = integerArgument(args, 'from', numberBounds) ?? 0;
  const limit = integerArgument(args, 'limit', { min: 1, max: numberBounds.max });
  const page = { from, ...(limit === undefined ? {} : { limit }) };
  return await toPromise<PoolDetails>((done) => poolsOf(context).show(poolIn(args), page, done));
}

export async function createPool(context: AdminContext): Promise<object> {
  const { core, control, args } = context;
  const unknown = Object.keys(args).find((field) => !creationFields.has(field));
  if (unknown !== undefined)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `a pool has no field ${JSON.stringify(unknown)}; the fields are ${[...creationFields].join(', ')}`,
    );
  const reason = reasonArgument(args);
  // Unvalidated JSON: each field is checked before it is used.
  const request = args as Partial<PoolRequest> as PoolRequest;
  const moduleVersion = await moduleVersionFor(context, request);
  const onCreated = ({ name: pool, id, module, containers, created }: CreatedPool): void => {
    if (created) control.recordAdminEvent('pool-create', { pool, poolId: id, module, containers, reason });
  };
  const { registry, clock } = control;
  const ports = { registry, clock, containers: core.containers, onCreated };
  return await toPromise<CreatedPool>((done) => createPoolAndAwaitTable(ports, { ...request, moduleVersion }, done));
}

/** PRECONDITION if no node can run the module, unless the pool exists already. */
async function moduleVersionFor(context: AdminContext, { name, module }: PoolRequest): Promise<number> {
  if (typeof name !== 'string' || typeof module !== 'string') return 0;
  const found = await moduleVersionForPool(context, module);
  if ('version' in found) return found.version;
  const { items } = (await listPools(context)) as { readonly items: readonly PoolRow[] };
  if (items.some((pool) => pool.name === name)) return 0;
  const known = found.known.join(', ');
  throw new RemusterError(
    'PRECONDITION',
    `no node has a module ${JSON.stringify(module)}, only ${known}: deploy it, or name its file in the option modules`,
    'no',
  );
}

export async function deletePool(context: AdminContext): Promise<object> {
  const { control, args } = context;
  const pool = poolIn(args);
  if (booleanArgument(args, 'dryRun')) {
    const {
      containers: _,
      more: __,
      ...facts
    } = await toPromise<PoolDetails>((done) => poolsOf(context).show(pool, { limit: 1 }, done));
    return { ...facts, dryRun: true };
  }
  const reason = reasonArgument(args);
  const deleted = await toPromise<PoolDescription>((done) => poolsOf(context).delete(pool, done));
  control.recordAdminEvent('pool-delete', { pool, poolId: deleted.id, reason });
  return deleted;
}

export async function showContainer(context: AdminContext): Promise<object> {
  const { pool, id } = containerIn(context.args);
  return await toPromise<ContainerView>((done) => poolsOf(context).showContainer(pool, id, done));
}

export async function explainContainer(context: AdminContext): Promise<object> {
  const { pool, id } = containerIn(context.args);
  return await toPromise<ContainerExplanation>((done) => poolsOf(context).explainContainer(pool, id, done));
}

/** Returns when the move has started. A container that is already there is no error. */
export async function migrateContainer(context: AdminContext): Promise<object> {
  const { core, control, args } = context;
  const { pool, id } = containerIn(args);
  if (typeof args['to'] !== 'string') throw new RemusterError('BAD_ARGUMENT', 'the target is missing: {"to": "NODE"}');
  const target = requireMember(args['to'], core.members());
  requireSameDatacenter(context, target);
  const { owner: from } = await toPromise<ContainerView>((done) => poolsOf(context).showContainer(pool, id, done));
  const reply = { pool, id, from, to: target.name };
  if (from === target.name) return { ...reply, moving: false };
  control.recordAdminEvent('container-migrate', {
    pool,
    container: id,
    target: target.name,
    reason: reasonArgument(args),
  });
  await sendLeaderCommand(control, 'migrate', { pool, container: id, to: target.id });
  return { ...reply, moving: true };
}

function poolIn({ pool }: CommandArguments): string {
  if (typeof pool === 'string') return pool;
  throw new RemusterError('BAD_ARGUMENT', 'pool is missing');
}

function containerIn(args: CommandArguments): { readonly pool: string; readonly id: number } {
  const id = integerArgument(args, 'id', numberBounds);
  if (id === undefined) throw new RemusterError('BAD_ARGUMENT', 'id is missing');
  return { pool: poolIn(args), id };
}
