/**
 * Public entry point `remuster/testing`: simulated clusters for users' tests. Nodes run the real code on a simulated
 * network, disks and virtual time: a minute passes in milliseconds, and the same seed gives the same run. The only file
 * of the simulator that waits for promises on the real event loop.
 *
 *     const cluster = await simulate({ nodes: 5, modules: [counter] });
 *     await cluster.createPool('visits', counter, { containers: 8 });
 *     await cluster.pool(counter, 'visits').hash('a').add(1);
 *     cluster.kill('n2');
 *     await cluster.advance('30s');
 */
import { setImmediate as turn } from 'node:timers/promises';
import { type ClusterControls, createClusterControls } from './cluster/cluster-controls.ts';
import { bootSimulatedNode, type SimulatedNode, simulatedPort } from './cluster/simulated-node.ts';
import { type SimulatedPools, type SimulateOptions, simulateWith } from './cluster/simulated-cluster.ts';
import { TimeDriver } from './cluster/time-driver.ts';
import { SimulatedWorld } from './world/simulated-world.ts';

export type { MemberRow } from '../node/membership/member-rows.ts';
export type { PoolOptions, SimulatedPools, SimulateOptions } from './cluster/simulated-cluster.ts';

export type SimulatedClusterOptions = {
  /** Number of nodes, named n1, n2 and so on; n1 is the seed of the others. */
  readonly nodes?: number;
  readonly seed?: string | number;
  /** Gets each line of the event log. */
  readonly onLine?: (line: string) => void;
};

export type SimulatedCluster = ClusterControls;

/** Every promise that can settle has settled before the next turn of the event loop. */
async function settle(): Promise<void> {
  await turn();
}

/** A cluster whose nodes have pools of these modules; resolves when all nodes are active. */
export function simulate(options: SimulateOptions): Promise<SimulatedPools> {
  return simulateWith(options, settle);
}

/** A cluster with membership only. */
export function simulateCluster(options: SimulatedClusterOptions = {}): SimulatedCluster {
  const names = Array.from({ length: options.nodes ?? 3 }, (_, index) => `n${index + 1}`);
  const world: SimulatedWorld<SimulatedNode> = new SimulatedWorld<SimulatedNode>({
    seed: `testing/${options.seed ?? 1}`,
    names,
    failpoints: false,
    sink: options.onLine,
    boot: (ports, context) => {
      const seed = world.host(names[0] as string).address;
      return bootSimulatedNode(ports, context, { join: [{ host: seed, port: simulatedPort }] });
    },
  });
  // No user code runs in this cluster, so one microtask between two events is enough.
  const driver = new TimeDriver(world, () => Promise.resolve());
  world.startAll();
  return createClusterControls(world, (durationMs) => driver.advance(durationMs));
}
