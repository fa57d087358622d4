/**
 * Resolves a route to container numbers, once, before the first attempt: a retry reaches only the containers that may
 * have run the call.
 */
import { RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { AddressTable, ContainerHosting, KnownPool } from '../contract.ts';
import type { ModuleDefinition, Route } from '../module.ts';
import { hashOfKey } from './key-hash.ts';

/** `isFanOut`: the caller gets a list of results or their aggregate, even for a single container. */
export type ResolvedRoute = { readonly first: number; readonly count: number; readonly isFanOut: boolean };

export type RouteLookup = {
  readonly self: NodeId;
  readonly table: Pick<AddressTable, 'ownerOf'>;
  readonly hosting: Pick<ContainerHosting, 'lowestOpen'> | undefined;
  nodeByName(name: string): NodeId | undefined;
};

/** The fast path of most calls. Undefined: the route is not a valid hash or id, and `resolveRoute` decides. */
export function directContainer(route: Route, { record }: KnownPool): number | undefined {
  if ('hash' in route) {
    const { hash } = route;
    if (typeof hash === 'string') return hashOfKey(hash) % record.containers;
    return Number.isSafeInteger(hash) && hash >= 0 ? hash % record.containers : undefined;
  }
  if (!('id' in route)) return undefined;
  const { id } = route;
  return Number.isSafeInteger(id) && id >= 0 && id < record.containers ? id : undefined;
}

/** Throws a coded error if the route names no container. A `dynamic` route is replaced before by `dynamicRoute`. */
export function resolveRoute(route: Route, pool: KnownPool, lookup: RouteLookup): ResolvedRoute {
  const { containers } = pool.record;
  if ('hash' in route) return single(numberOfHash(route.hash) % containers);
  if ('id' in route) return single(checkContainer(route.id, pool));
  if ('range' in route) return range(route.range, pool);
  if ('broadcast' in route) return { first: 0, count: containers, isFanOut: true };
  if ('local' in route) return single(lowestContainerOf(lookup.self, 'this node', pool, lookup));
  if ('node' in route) {
    const node = lookup.nodeByName(route.node);
    if (node === undefined)
      throw new RemusterError('UNKNOWN_CONTAINER', `there is no node "${truncateName(route.node)}"`);
    return single(lowestContainerOf(node, truncateName(route.node), pool, lookup));
  }
  throw new RemusterError(
    'BAD_ARGUMENT',
    'malformed route: give one of hash, id, range, broadcast, node, local, dynamic',
  );
}

/** The route that the `route` function of the module returns for this call. */
export function dynamicRoute(
  definition: ModuleDefinition,
  pool: KnownPool,
  method: string,
  args: readonly unknown[],
): Route {
  const { name, record } = pool;
  if (definition.route === undefined) {
    throw new RemusterError('BAD_ARGUMENT', `a dynamic call needs a route() in module ${record.module}: it has none`);
  }
  let chosen: Route;
  try {
    chosen = definition.route(method, args, { name, containers: record.containers, params: record.params });
  } catch (error) {
    throw new RemusterError('CALL_FAILED', `route() of ${record.module}: ${errorText(error)}`);
  }
  if (typeof chosen !== 'object' || chosen === null || 'dynamic' in chosen) {
    throw new RemusterError('CALL_FAILED', `route() of ${record.module} returned no valid route`);
  }
  return chosen;
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function single(container: number): ResolvedRoute {
  return { first: container, count: 1, isFanOut: false };
}

function numberOfHash(hash: string | number): number {
  if (typeof hash === 'string') return hashOfKey(hash);
  if (Number.isSafeInteger(hash) && hash >= 0) return hash;
  throw new RemusterError('BAD_ARGUMENT', `the hash of a route is ${hash}: give a text or a whole number from 0 on`);
}

function checkContainer(container: number, { name, record }: KnownPool): number {
  if (!Number.isSafeInteger(container) || container < 0) {
    throw new RemusterError('BAD_ARGUMENT', `the container number is ${container}: give a whole number from 0 on`);
  }
  if (container < record.containers) return container;
  throw new RemusterError(
    'UNKNOWN_CONTAINER',
    `pool "${name}" has no container ${container}: it has 0 to ${record.containers - 1}`,
  );
}

function range([first, count]: readonly [number, number], pool: KnownPool): ResolvedRoute {
  checkContainer(first, pool);
  if (!Number.isSafeInteger(count) || count < 1) {
    throw new RemusterError('BAD_ARGUMENT', `the count of a range is ${count}: give a whole number from 1 on`);
  }
  checkContainer(first + count - 1, pool);
  return { first, count, isFanOut: true };
}

function lowestContainerOf(node: NodeId, name: string, pool: KnownPool, { self, table, hosting }: RouteLookup): number {
  const open = node === self ? hosting?.lowestOpen(pool) : undefined;
  if (open !== undefined) return open;
  for (let container = 0; container < pool.record.containers; container++) {
    if (table.ownerOf(pool, container) === node) return container;
  }
  throw new RemusterError('UNKNOWN_CONTAINER', `${name} owns no container of pool "${pool.name}"`);
}

function truncateName(name: string): string {
  return name.slice(0, 63);
}
