/**
 * Builds and parses every key under `/cluster/`, and validates each part. The only place that knows their spelling.
 * Never reads or writes a value.
 *
 *   /cluster/assigner                           fence of the leader that drains and rebalances
 *   /cluster/container-last-deletion            name of the pool that was deleted last
 *   /cluster/container-last-pool                highest number that a pool ever had
 *   /cluster/container-nodes/{node}             number of the node in address tables
 *   /cluster/container-placer                   fence of the leader that places containers
 *   /cluster/container-pools/{pool}             definition of the pool
 *   /cluster/containers/{pool}/{container}      owner and replicas of the container
 *   /cluster/drains/{node}                      the drain of the node
 *   /cluster/epoch                              number of the epoch, and the term that confirmed it
 *   /cluster/load/{node}                        latest load report of the node
 *   /cluster/nodes/{node}/state                 mode of the node; outlives its registration
 *   /cluster/nodes/{node}/stopping              the node is stopping; ends with the lease of its registration
 *   /cluster/register/{node}                    registration of the node, under its lease
 *   /cluster/spreads/{node}                     a new node without containers, which gets its share of them
 */
import { unreachable } from '../base/assert.ts';
import { RemusterError } from '../base/errors.ts';
import { type NodeId, namePattern, parseNodeId } from '../base/ids.ts';
import { type KeyRange, withPrefix } from '../base/registry.ts';

/** One container of a pool. Both names follow `namePattern`. */
export type ContainerName = { readonly pool: string; readonly container: string };

export type ClusterKey =
  | { readonly kind: 'assigner' }
  | { readonly kind: 'containerNode'; readonly node: NodeId }
  | { readonly kind: 'lastDeletion' }
  | { readonly kind: 'lastPool' }
  | { readonly kind: 'placer' }
  | { readonly kind: 'pool'; readonly pool: string }
  | ({ readonly kind: 'container' } & ContainerName)
  | { readonly kind: 'drain'; readonly node: NodeId }
  | { readonly kind: 'epoch' }
  | { readonly kind: 'load'; readonly node: NodeId }
  | { readonly kind: 'spread'; readonly node: NodeId }
  | { readonly kind: 'state'; readonly node: NodeId }
  | { readonly kind: 'stopping'; readonly node: NodeId }
  | { readonly kind: 'registration'; readonly node: NodeId };

/** Throws BAD_ARGUMENT for a name that does not follow `namePattern`. */
export function clusterKey(key: ClusterKey): string {
  switch (key.kind) {
    case 'assigner':
      return '/cluster/assigner';
    case 'containerNode':
      return `/cluster/container-nodes/${parseNodeId(key.node)}`;
    case 'lastDeletion':
      return '/cluster/container-last-deletion';
    case 'lastPool':
      return '/cluster/container-last-pool';
    case 'placer':
      return '/cluster/container-placer';
    case 'pool':
      return `/cluster/container-pools/${poolPath(key.pool)}`;
    case 'container':
      return `/cluster/containers/${containerPath(key)}`;
    case 'drain':
      return `/cluster/drains/${parseNodeId(key.node)}`;
    case 'epoch':
      return '/cluster/epoch';
    case 'load':
      return `/cluster/load/${parseNodeId(key.node)}`;
    case 'spread':
      return `/cluster/spreads/${parseNodeId(key.node)}`;
    case 'state':
      return `/cluster/nodes/${parseNodeId(key.node)}/state`;
    case 'stopping':
      return `/cluster/nodes/${parseNodeId(key.node)}/stopping`;
    case 'registration':
      return `/cluster/register/${parseNodeId(key.node)}`;
    default:
      return unreachable(key);
  }
}

/** Undefined for every text that `clusterKey` does not build. */
export function parseClusterKey(text: string): ClusterKey | undefined {
  const [root, cluster, area, ...rest] = text.split('/');
  if (root !== '' || cluster !== 'cluster') return undefined;
  if (area === 'assigner') return rest.length === 0 ? { kind: 'assigner' } : undefined;
  if (area === 'epoch') return rest.length === 0 ? { kind: 'epoch' } : undefined;
  if (area === 'container-placer') return rest.length === 0 ? { kind: 'placer' } : undefined;
  if (area === 'container-last-deletion') return rest.length === 0 ? { kind: 'lastDeletion' } : undefined;
  if (area === 'container-last-pool') return rest.length === 0 ? { kind: 'lastPool' } : undefined;
  if (area === 'container-pools') {
    const [pool, ...more] = rest;
    return more.length === 0 && pool !== undefined && namePattern.test(pool) ? { kind: 'pool', pool } : undefined;
  }
  if (area === 'containers') {
    const name = containerOf(rest);
    return name === undefined ? undefined : { kind: 'container', ...name };
  }
  const node = nodeOf(rest[0]);
  return node === undefined ? undefined : nodeKeyOf(area, node, rest.slice(1));
}

function nodeKeyOf(area: string | undefined, node: NodeId, rest: readonly string[]): ClusterKey | undefined {
  if (area === 'container-nodes') return rest.length === 0 ? { kind: 'containerNode', node } : undefined;
  if (area === 'drains') return rest.length === 0 ? { kind: 'drain', node } : undefined;
  if (area === 'load') return rest.length === 0 ? { kind: 'load', node } : undefined;
  if (area === 'spreads') return rest.length === 0 ? { kind: 'spread', node } : undefined;
  if (area === 'register') return rest.length === 0 ? { kind: 'registration', node } : undefined;
  if (area !== 'nodes' || rest.length !== 1) return undefined;
  return rest[0] === 'state' || rest[0] === 'stopping' ? { kind: rest[0], node } : undefined;
}

export const keyRanges = {
  registrations: withPrefix('/cluster/register/'),
  cluster: withPrefix('/cluster/'),
  /** Node numbers, pools and containers: all that an address table is built from, in one watch. */
  containers: { from: '/cluster/container-', to: withPrefix('/cluster/containers/').to },
  containersOf: (pool: string): KeyRange => withPrefix(`/cluster/containers/${poolPath(pool)}/`),
  pools: withPrefix('/cluster/container-pools/'),
  /** Epoch, states, stops and registrations in one watch, so in one order. The loads lie between them. */
  nodeDirectory: { from: '/cluster/epoch', to: withPrefix('/cluster/register/').to },
} as const;

function poolPath(pool: string): string {
  if (!namePattern.test(pool)) throw new RemusterError('BAD_ARGUMENT', `"${pool}" cannot be the name of a pool`);
  return pool;
}

function containerPath({ pool, container }: ContainerName): string {
  poolPath(pool);
  if (!namePattern.test(container)) {
    throw new RemusterError('BAD_ARGUMENT', `"${container}" cannot be the name of a container`);
  }
  return `${pool}/${container}`;
}

function containerOf([pool, container, ...more]: readonly string[]): ContainerName | undefined {
  if (pool === undefined || container === undefined || more.length > 0) return undefined;
  return namePattern.test(pool) && namePattern.test(container) ? { pool, container } : undefined;
}

function nodeOf(text: string | undefined): NodeId | undefined {
  try {
    return parseNodeId(text ?? '');
  } catch {
    return undefined;
  }
}
