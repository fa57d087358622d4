/**
 * Builds and parses every key under `/cluster/`; checks each part. The only place that knows their spelling. Never
 * reads or writes a value.
 *
 *   /cluster/assigner                           the fence of the leader that may drain and rebalance
 *   /cluster/container-last-deletion            the name of the pool that was deleted last
 *   /cluster/container-last-pool                the highest number that a pool ever had
 *   /cluster/container-nodes/{node}             the number of the node in address tables
 *   /cluster/container-placer                   the fence of the leader that may place containers
 *   /cluster/container-pools/{pool}             what the pool is
 *   /cluster/containers/{pool}/{container}      who owns the container, who has copies of its state
 *   /cluster/drains/{node}                      how the node is being drained
 *   /cluster/epoch                              counts the times in which somebody was registered without a gap
 *   /cluster/load/{node}                        what the node last said about its load
 *   /cluster/nodes/{node}/state                 active, draining, drained: survives the node
 *   /cluster/register/{node}                    the node is here, under its lease
 *   /cluster/spreads/{node}                     the node came without containers, and gets its share of them
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
  | { readonly kind: 'registration'; readonly node: NodeId };

/** BAD_ARGUMENT when a name could be read as something else. */
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
    case 'registration':
      return `/cluster/register/${parseNodeId(key.node)}`;
    default:
      return unreachable(key);
  }
}

/** Undefined for everything that `clusterKey` would not have built. */
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
  return area === 'nodes' && rest.length === 1 && rest[0] === 'state' ? { kind: 'state', node } : undefined;
}

export const keyRanges = {
  registrations: withPrefix('/cluster/register/'),
  cluster: withPrefix('/cluster/'),
  /** Numbers of nodes, pools and containers: everything an address table is made of, in one watch. */
  containers: { from: '/cluster/container-', to: withPrefix('/cluster/containers/').to },
  containersOf: (pool: string): KeyRange => withPrefix(`/cluster/containers/${poolPath(pool)}/`),
  pools: withPrefix('/cluster/container-pools/'),
  /** Epoch, states and registrations are neighbours, with the load in between: one watch, one order. */
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
