/**
 * Boots the real node core on simulated ports, as boot/start-node.ts does on real ones. Only the ports are simulated.
 */
import { RemusterError } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Address, Datagrams, Identity, Program, Role, Runners, Store, Streams } from '../../base/ports.ts';
import type { ModuleDefinition } from '../../containers/module.ts';
import { ModuleCatalog } from '../../containers/module-catalog.ts';
import { bootNode } from '../../node/node-core.ts';
import type { CorePorts, NodeCore } from '../../node/core/node-core-types.ts';
import { startGeneration } from '../../node/boot/node-identity.ts';
import { inlineMembership } from '../../node/membership/inline-membership.ts';
import { type NodeOptions, nodeOptions } from '../../node/options/options.ts';
import { simulatedHash } from '../engine/simulated-hash.ts';
import type { SimulatedPorts } from '../world/simulated-ports.ts';
import type { NodeContext, SimulatedWorld } from '../world/simulated-world.ts';

/** A node that boots or has booted. Workloads that send messages of their own use its streams. */
export type SimulatedNode = {
  core?: NodeCore;
  identity?: Identity;
  streams?: Streams;
};

export type SimulatedNodeOptions = {
  readonly join: readonly Address[];
  readonly cluster?: string;
  /** Roles by name; if left out, all nodes are managers and workers. */
  readonly roles?: (name: string) => readonly Role[];
  /** Datacenter by name; if left out, all nodes are in one. */
  readonly dc?: (name: string) => string;
  /** Without modules the nodes have no containers. */
  readonly modules?: readonly ModuleDefinition[];
  /** Without them the nodes run no jobs. */
  readonly jobs?: SimulatedJobsOptions;
  /** The core has booted. */
  readonly booted?: (node: SimulatedNode) => void;
  /** Override the defaults. */
  readonly options?: Partial<NodeOptions>;
  /** Lets a workload observe the ports. */
  readonly wrap?: (streams: Streams, datagrams: Datagrams, identity: Identity) => WrappedPorts;
};

export type SimulatedJobsOptions = {
  /** Cores of each worker. */
  readonly cores: number;
  /** Fake runners of that node; `inner` runs a program as it is. */
  readonly runners: (inner: Runners, node: string) => Runners;
};

export type WrappedPorts = { readonly streams: Streams; readonly datagrams: Datagrams };

function controlPorts(ports: SimulatedPorts, context: NodeContext, { roles }: Identity): CorePorts['control'] {
  return {
    random: context.random.fork('control'),
    logStore: roles.includes('manager') ? ports.openStore('log') : undefined,
    external: undefined,
    measure: () => ({ cpu: 0, memory: 0, perSecond: 0, capacity: 1 }),
  };
}

function containerPorts(
  ports: SimulatedPorts,
  { roles }: Identity,
  modules: readonly ModuleDefinition[],
): CorePorts['containers'] {
  const known = new ModuleCatalog();
  for (const definition of modules) known.add(definition, 0);
  const store = roles.includes('worker') ? ports.openStore('containers') : undefined;
  return { modules: known, files: ports.files, store };
}

function jobPorts(
  { runners }: SimulatedPorts,
  { roles, name }: Identity,
  jobs: SimulatedJobsOptions,
): CorePorts['jobs'] {
  const own = {
    runners: jobs.runners(runners, name),
    program: noProgram,
    cores: jobs.cores,
    isolation: 'full',
  } as const;
  return { sha256: simulatedHash, runners: roles.includes('worker') ? own : undefined };
}

/** Fake runners ignore the program that the worker passes. */
const noProgram: Program = {
  moduleUrl: 'simulated',
  main: () => {
    throw new RemusterError('INTERNAL', 'no fake runners were configured');
  },
};

export const simulatedPort = 7400;
const restartMs = 500;

export function simulatedAddress(world: SimulatedWorld<unknown>, name: string): Address {
  return { host: world.host(name).address, port: simulatedPort };
}

/** Names of the members that the node believes alive; empty while it is down. */
export function aliveMembersOf(node: SimulatedNode | undefined): string[] {
  return (node?.core?.members() ?? []).filter(({ state }) => state === 'alive').map(({ name }) => name);
}

export function bootSimulatedNode(
  ports: SimulatedPorts,
  context: NodeContext,
  options: SimulatedNodeOptions,
): SimulatedNode {
  const node: SimulatedNode = {};
  const store = ports.openStore('node');
  const { name, host } = context;
  const freshId = () => nodeIdFrom(context.random.fork('id').bytes(16));
  const start = (): void =>
    startGeneration(store, freshId, (raised) => {
      if (raised.ok) {
        const identity: Identity = {
          ...raised.value,
          name,
          host,
          port: simulatedPort,
          roles: options.roles?.(name) ?? options.options?.roles ?? ['manager', 'worker'],
          dc: options.dc?.(name) ?? 'local',
        };
        bootCore(node, ports, context, store, identity, options);
      } else {
        context.log('warn', 'cannot start', { code: raised.error.code });
        ports.clock.schedule(restartMs, start);
      }
    });
  start();
  return node;
}

function bootCore(
  node: SimulatedNode,
  ports: SimulatedPorts,
  context: NodeContext,
  store: Store,
  identity: Identity,
  options: SimulatedNodeOptions,
): void {
  const bare = ports.listen(identity, options.cluster ?? 'simulated');
  const { streams, datagrams } = options.wrap?.(bare.streams, bare.datagrams, identity) ?? bare;
  // Most simulations need membership only; others set `registry`.
  const own = nodeOptions({ join: options.join, registry: 'none', ...options.options });
  node.identity = identity;
  node.streams = streams;
  node.core = bootNode(
    {
      ...{ clock: ports.clock, streams, store, log: context.log },
      membership: inlineMembership(datagrams, context.random, own),
      control: own.registry === 'none' ? undefined : controlPorts(ports, context, identity),
      containers: options.modules === undefined ? undefined : containerPorts(ports, identity, options.modules),
      jobs: options.jobs === undefined ? undefined : jobPorts(ports, identity, options.jobs),
    },
    { ...own, identity },
    {
      // Thrown from a timer, so that no caller catches it.
      halted: (error) => {
        ports.clock.schedule(0, () => {
          throw error;
        });
      },
    },
  );
  options.booted?.(node);
}
