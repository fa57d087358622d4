/**
 * What operators order about pools and containers: create, delete, look, explain, move. Pools live in the registry of
 * one datacenter; everything but a move is one look or one guarded change there, a move is the leader's.
 */
import { RemusterError, toPromise } from '../base/errors.ts';
import { type CreatedPool, PoolOperations } from '../placement/operations/pool-operations.ts';
import type { ContainerExplanation } from '../placement/operations/container-explanation.ts';
import type { PoolRequest } from '../placement/operations/pool-spec.ts';
import type { ContainerView, PoolDescription, PoolRow, PoolDetails } from '../placement/operations/pool-views.ts';
import { type Desk, order, refuseElsewhere } from './admin-desk.ts';
import { type OrderWords, countIn, flagIn, reasonIn } from './control/order-words.ts';
import { memberCalled } from './member-routes.ts';
import { moduleForPool } from './module-acts.ts';
import { createKnown } from './pool-creation.ts';

const numberBounds = { min: 0, max: Number.MAX_SAFE_INTEGER } as const;
const creationWords: ReadonlySet<string> = new Set([
  ...['name', 'module', 'containers', 'copies', 'durability', 'restart', 'params', 'force', 'reason'],
]);

function poolsOf({ control }: Desk): PoolOperations {
  return new PoolOperations(control.registry, control.clock);
}

export async function listPools(desk: Desk): Promise<object> {
  return { items: await toPromise<readonly PoolRow[]>((done) => poolsOf(desk).list(done)) };
}

export async function showPool(desk: Desk): Promise<object> {
  const { words } = desk;
  const from = countIn(words, 'from', numberBounds) ?? 0;
  const limit = countIn(words, 'limit', { min: 1, max: numberBounds.max });
  const page = { from, ...(limit === undefined ? {} : { limit }) };
  return await toPromise<PoolDetails>((done) => poolsOf(desk).show(poolIn(words), page, done));
}

export async function createPool(desk: Desk): Promise<object> {
  const { core, control, words } = desk;
  const unknown = Object.keys(words).find((word) => !creationWords.has(word));
  if (unknown !== undefined)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `a pool has no ${JSON.stringify(unknown)}: ${[...creationWords].join(', ')}`,
    );
  const reason = reasonIn(words);
  // Whatever came as JSON: each field is checked before it is used.
  const request = words as Partial<PoolRequest> as PoolRequest;
  const moduleVersion = await moduleVersionFor(desk, request);
  const made = ({ name: pool, id, module, containers, created }: CreatedPool): void => {
    if (created) control.ordered('pool-create', { pool, poolId: id, module, containers, reason });
  };
  const { registry, clock } = control;
  const ports = { registry, clock, containers: core.containers, made };
  return await toPromise<CreatedPool>((done) => createKnown(ports, { ...request, moduleVersion }, done));
}

/** PRECONDITION when nobody could run it; what exists already needs nobody. */
async function moduleVersionFor(desk: Desk, { name, module }: PoolRequest): Promise<number> {
  if (typeof name !== 'string' || typeof module !== 'string') return 0;
  const found = await moduleForPool(desk, module);
  if ('version' in found) return found.version;
  const { items } = (await listPools(desk)) as { readonly items: readonly PoolRow[] };
  if (items.some((pool) => pool.name === name)) return 0;
  const known = found.known.join(', ');
  throw new RemusterError(
    'PRECONDITION',
    `no node knows a module ${JSON.stringify(module)}, only ${known}: deploy it, or name its file in the option modules`,
  );
}

export async function deletePool(desk: Desk): Promise<object> {
  const { control, words } = desk;
  const pool = poolIn(words);
  if (flagIn(words, 'dryRun')) {
    const {
      containers: _,
      more: __,
      ...facts
    } = await toPromise<PoolDetails>((done) => poolsOf(desk).show(pool, { limit: 1 }, done));
    return { ...facts, dryRun: true };
  }
  const reason = reasonIn(words);
  const deleted = await toPromise<PoolDescription>((done) => poolsOf(desk).delete(pool, done));
  control.ordered('pool-delete', { pool, poolId: deleted.id, reason });
  return deleted;
}

export async function showContainer(desk: Desk): Promise<object> {
  const { pool, id } = containerIn(desk.words);
  return await toPromise<ContainerView>((done) => poolsOf(desk).showContainer(pool, id, done));
}

export async function explainContainer(desk: Desk): Promise<object> {
  const { pool, id } = containerIn(desk.words);
  return await toPromise<ContainerExplanation>((done) => poolsOf(desk).explainContainer(pool, id, done));
}

/** Ends when the move has begun; it goes on by itself. Being there already is no error. */
export async function migrateContainer(desk: Desk): Promise<object> {
  const { core, control, words } = desk;
  const { pool, id } = containerIn(words);
  if (typeof words['to'] !== 'string') throw new RemusterError('BAD_ARGUMENT', 'say where to: {"to": "NODE"}');
  const target = memberCalled(words['to'], core.members());
  refuseElsewhere(desk, target);
  const { owner: from } = await toPromise<ContainerView>((done) => poolsOf(desk).showContainer(pool, id, done));
  const answer = { pool, id, from, to: target.name };
  if (from === target.name) return { ...answer, moving: false };
  control.ordered('container-migrate', { pool, container: id, target: target.name, reason: reasonIn(words) });
  await order(control, 'migrate', { pool, container: id, to: target.id });
  return { ...answer, moving: true };
}

function poolIn({ pool }: OrderWords): string {
  if (typeof pool === 'string') return pool;
  throw new RemusterError('BAD_ARGUMENT', 'say which pool');
}

function containerIn(words: OrderWords): { readonly pool: string; readonly id: number } {
  const id = countIn(words, 'id', numberBounds);
  if (id === undefined) throw new RemusterError('BAD_ARGUMENT', 'say which container');
  return { pool: poolIn(words), id };
}
