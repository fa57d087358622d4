/**
 * Resolves a route to container numbers, once, before anything is sent, so a resend reaches only the container that may
 * have run it.
 */
import { RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { AddressTable, ContainerHosting, KnownPool } from '../contract.ts';
import type { ModuleDefinition, Route } from '../module.ts';
import { hashOfKey } from './key-hash.ts';

/** `many`: the caller gets a list, or what the module's `aggregate` makes of it, also when there is only one. */
export type ResolvedRoute = { readonly first: number; readonly count: number; readonly isFanOut: boolean };

export type RouteLookup = {
  readonly self: NodeId;
  readonly table: Pick<AddressTable, 'ownerOf'>;
  readonly hosting: Pick<ContainerHosting, 'lowestOpen'> | undefined;
  nodeByName(name: string): NodeId | undefined;
};

/** The way of most calls, without a detour: undefined for what is no hash or id, or names no container. */
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

/** Throws a coded error for what names no container. `dynamic` has been replaced by what the module said. */
export function resolveRoute(route: Route, pool: KnownPool, sources: RouteLookup): ResolvedRoute {
  const { containers } = pool.record;
  if ('hash' in route) return one(numberOfHash(route.hash) % containers);
  if ('id' in route) return one(within(route.id, pool));
  if ('range' in route) return range(route.range, pool);
  if ('broadcast' in route) return { first: 0, count: containers, isFanOut: true };
  if ('local' in route) return one(lowestAt(sources.self, 'this node', pool, sources));
  if ('node' in route) {
    const node = sources.nodeByName(route.node);
    if (node === undefined) throw new RemusterError('UNKNOWN_CONTAINER', `no node is called "${shown(route.node)}"`);
    return one(lowestAt(node, shown(route.node), pool, sources));
  }
  throw new RemusterError('BAD_ARGUMENT', 'a route is one of hash, id, range, broadcast, node, local, dynamic');
}

/** What the module says about a dynamic call. */
export function dynamicRoute(
  definition: ModuleDefinition,
  pool: KnownPool,
  method: string,
  args: readonly unknown[],
): Route {
  const { name, record } = pool;
  if (definition.route === undefined) {
    throw new RemusterError('BAD_ARGUMENT', `the module ${record.module} does not choose routes: it has no route()`);
  }
  let chosen: Route;
  try {
    chosen = definition.route(method, args, { name, containers: record.containers, params: record.params });
  } catch (error) {
    throw new RemusterError('CALL_FAILED', `route() of ${record.module}: ${errorText(error)}`);
  }
  if (typeof chosen !== 'object' || chosen === null || 'dynamic' in chosen) {
    throw new RemusterError('CALL_FAILED', `route() of ${record.module} gave no route`);
  }
  return chosen;
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function one(container: number): ResolvedRoute {
  return { first: container, count: 1, isFanOut: false };
}

function numberOfHash(hash: string | number): number {
  if (typeof hash === 'string') return hashOfKey(hash);
  if (Number.isSafeInteger(hash) && hash >= 0) return hash;
  throw new RemusterError('BAD_ARGUMENT', 'a hash is a text or a whole number from 0 on');
}

function within(container: number, { name, record }: KnownPool): number {
  if (!Number.isSafeInteger(container) || container < 0) {
    throw new RemusterError('BAD_ARGUMENT', 'the number of a container is a whole number from 0 on');
  }
  if (container < record.containers) return container;
  throw new RemusterError('UNKNOWN_CONTAINER', `"${name}" has the containers 0 to ${record.containers - 1}`);
}

function range([first, count]: readonly [number, number], pool: KnownPool): ResolvedRoute {
  within(first, pool);
  if (!Number.isSafeInteger(count) || count < 1) {
    throw new RemusterError('BAD_ARGUMENT', 'a range is the first container and a count from 1 on');
  }
  within(first + count - 1, pool);
  return { first, count, isFanOut: true };
}

function lowestAt(node: NodeId, name: string, pool: KnownPool, { self, table, hosting }: RouteLookup): number {
  const open = node === self ? hosting?.lowestOpen(pool) : undefined;
  if (open !== undefined) return open;
  for (let container = 0; container < pool.record.containers; container++) {
    if (table.ownerOf(pool, container) === node) return container;
  }
  throw new RemusterError('UNKNOWN_CONTAINER', `${name} owns no container of "${pool.name}"`);
}

function shown(name: string): string {
  return name.slice(0, 63);
}
