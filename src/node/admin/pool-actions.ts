/** Admin actions on pools and containers. One read or one guarded write; a migration goes to the leader. */
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
const creationWords: ReadonlySet<string> = new Set([
  ...['name', 'module', 'containers', 'copies', 'durability', 'restart', 'params', 'force', 'reason'],
]);

function poolsOf({ control }: AdminContext): PoolOperations {
  return new PoolOperations(control.registry, control.clock);
}

export async function listPools(desk: AdminContext): Promise<object> {
  return { items: await toPromise<readonly PoolRow[]>((done) => poolsOf(desk).list(done)) };
}

export async function showPool(desk: AdminContext): Promise<object> {
  const { args } = desk;
  const from = integerArgument(args, 'from', numberBounds) ?? 0;
  const limit = integerArgument(args, 'limit', { min: 1, max: numberBounds.max });
  const page = { from, ...(limit === undefined ? {} : { limit }) };
  return await toPromise<PoolDetails>((done) => poolsOf(desk).show(poolIn(args), page, done));
}

export async function createPool(desk: AdminContext): Promise<object> {
  const { core, control, args } = desk;
  const unknown = Object.keys(args).find((word) => !creationWords.has(word));
  if (unknown !== undefined)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `a pool has no ${JSON.stringify(unknown)}: ${[...creationWords].join(', ')}`,
    );
  const reason = reasonArgument(args);
  // Whatever came as JSON: each field is checked before it is used.
  const request = args as Partial<PoolRequest> as PoolRequest;
  const moduleVersion = await moduleVersionFor(desk, request);
  const made = ({ name: pool, id, module, containers, created }: CreatedPool): void => {
    if (created) control.recordAdminEvent('pool-create', { pool, poolId: id, module, containers, reason });
  };
  const { registry, clock } = control;
  const ports = { registry, clock, containers: core.containers, made };
  return await toPromise<CreatedPool>((done) => createPoolAndAwaitTable(ports, { ...request, moduleVersion }, done));
}

/** PRECONDITION when nobody could run it; what exists already needs nobody. */
async function moduleVersionFor(desk: AdminContext, { name, module }: PoolRequest): Promise<number> {
  if (typeof name !== 'string' || typeof module !== 'string') return 0;
  const found = await moduleVersionForPool(desk, module);
  if ('version' in found) return found.version;
  const { items } = (await listPools(desk)) as { readonly items: readonly PoolRow[] };
  if (items.some((pool) => pool.name === name)) return 0;
  const known = found.known.join(', ');
  throw new RemusterError(
    'PRECONDITION',
    `no node knows a module ${JSON.stringify(module)}, only ${known}: deploy it, or name its file in the option modules`,
    'no',
  );
}

export async function deletePool(desk: AdminContext): Promise<object> {
  const { control, args } = desk;
  const pool = poolIn(args);
  if (booleanArgument(args, 'dryRun')) {
    const {
      containers: _,
      more: __,
      ...facts
    } = await toPromise<PoolDetails>((done) => poolsOf(desk).show(pool, { limit: 1 }, done));
    return { ...facts, dryRun: true };
  }
  const reason = reasonArgument(args);
  const deleted = await toPromise<PoolDescription>((done) => poolsOf(desk).delete(pool, done));
  control.recordAdminEvent('pool-delete', { pool, poolId: deleted.id, reason });
  return deleted;
}

export async function showContainer(desk: AdminContext): Promise<object> {
  const { pool, id } = containerIn(desk.args);
  return await toPromise<ContainerView>((done) => poolsOf(desk).showContainer(pool, id, done));
}

export async function explainContainer(desk: AdminContext): Promise<object> {
  const { pool, id } = containerIn(desk.args);
  return await toPromise<ContainerExplanation>((done) => poolsOf(desk).explainContainer(pool, id, done));
}

/** Ends when the move has begun; it goes on by itself. Being there already is no error. */
export async function migrateContainer(desk: AdminContext): Promise<object> {
  const { core, control, args } = desk;
  const { pool, id } = containerIn(args);
  if (typeof args['to'] !== 'string') throw new RemusterError('BAD_ARGUMENT', 'say where to: {"to": "NODE"}');
  const target = requireMember(args['to'], core.members());
  requireSameDatacenter(desk, target);
  const { owner: from } = await toPromise<ContainerView>((done) => poolsOf(desk).showContainer(pool, id, done));
  const answer = { pool, id, from, to: target.name };
  if (from === target.name) return { ...answer, moving: false };
  control.recordAdminEvent('container-migrate', {
    pool,
    container: id,
    target: target.name,
    reason: reasonArgument(args),
  });
  await sendLeaderCommand(control, 'migrate', { pool, container: id, to: target.id });
  return { ...answer, moving: true };
}

function poolIn({ pool }: CommandArguments): string {
  if (typeof pool === 'string') return pool;
  throw new RemusterError('BAD_ARGUMENT', 'say which pool');
}

function containerIn(words: CommandArguments): { readonly pool: string; readonly id: number } {
  const id = integerArgument(words, 'id', numberBounds);
  if (id === undefined) throw new RemusterError('BAD_ARGUMENT', 'say which container');
  return { pool: poolIn(words), id };
}
