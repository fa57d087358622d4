/** Faults that target managers: the leader, and the manager that bootstraps the group. */
import { type Fault, type FaultContext, repeatedly } from './common-faults.ts';
import type { SimulatedNode } from '../../../src/simulation/cluster/simulated-node.ts';
import type { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';

export function simulatedNodeOf(world: SimulatedWorld<unknown>, name: string): SimulatedNode | undefined {
  return world.program(name) as SimulatedNode | undefined;
}

export function leaderNameOf(world: SimulatedWorld<unknown>): string | undefined {
  return world.names.find((name) => simulatedNodeOf(world, name)?.core?.control?.leadership.isLeading() === true);
}

/** It comes back, sooner or later. */
export function crashNode({ world, random, after }: FaultContext, node: string | undefined, downMsMax: number): void {
  if (node === undefined || !world.isUp(node)) return;
  world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
  after(random.between(50, downMsMax), () => {
    if (!world.isUp(node)) world.start(node);
  });
}

/** A manager that is a group by itself. */
function bootstrappingManager(world: SimulatedWorld<unknown>): string | undefined {
  return world.names.find(
    (name) => simulatedNodeOf(world, name)?.core?.control?.manager?.group.view().members.length === 1,
  );
}

export const leaderFaults = {
  killLeader: repeatedly(3_000, (nemesis) => crashNode(nemesis, leaderNameOf(nemesis.world), 5_000)),

  /** Looks often, so that it strikes before others have been taken in or have even heard of the group. */
  killFounder: repeatedly(20, (nemesis) => crashNode(nemesis, bootstrappingManager(nemesis.world), 12_000)),
} as const satisfies Readonly<Record<string, Fault>>;
