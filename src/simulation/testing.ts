/**
 * Public entry point `remuster/testing`: simulated clusters for users' tests. Nodes run the real code on a simulated
 * network, disks and virtual time: a minute passes in milliseconds, and the same seed gives the same run. The only file
 * that waits for real-world promises.
 *
 *     const cluster = await simulate({ nodes: 5, modules: [counter] });
 *     await cluster.createPool('visits', counter, { containers: 8 });
 *     await cluster.pool(counter, 'visits').hash('a').add(1);
 *     cluster.kill('n2');
 *     await cluster.advance('30s');
 *
 * This file is the door: it alone knows how to wait for promises in the real world.
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
  /** How many nodes; they are called n1, n2 and so on, and n1 is the seed of the others. */
  readonly nodes?: number;
  readonly seed?: string | number;
  /** Gets each line of the event log. */
  readonly onLine?: (line: string) => void;
};

export type SimulatedCluster = ClusterControls;

/** Every promise that could go on has gone on when the loop comes to its next turn. */
async function settle(): Promise<void> {
  await turn();
}

/** Nodes with pools of these modules; ends when all of them can work. */
export function simulate(options: SimulateOptions): Promise<SimulatedPools> {
  return simulateWith(options, settle);
}

/** Nodes that know of each other, and no more. */
export function simulateCluster(options: SimulatedClusterOptions = {}): SimulatedCluster {
  const names = Array.from({ length: options.nodes ?? 3 }, (_, index) => `n${index + 1}`);
  const world: SimulatedWorld<SimulatedNode> = new SimulatedWorld<SimulatedNode>({
    seed: `testing/${options.seed ?? 1}`,
    names,
    rarities: false,
    sink: options.onLine,
    boot: (ports, context) => {
      const seed = world.host(names[0] as string).address;
      return bootSimulatedNode(ports, context, { join: [{ host: seed, port: simulatedPort }] });
    },
  });
  // There is no code of users in it: whoever awaits something gets a turn between two events, and that is enough.
  const driver = new TimeDriver(world, () => Promise.resolve());
  world.startAll();
  return createClusterControls(world, (durationMs) => driver.advance(durationMs));
}
