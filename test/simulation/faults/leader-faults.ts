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

/** Crashes a node and restarts it within `downMsMax`. */
export function crashNode({ world, random, after }: FaultContext, node: string | undefined, downMsMax: number): void {
  if (node === undefined || !world.isUp(node)) return;
  world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
  after(random.between(50, downMsMax), () => {
    if (!world.isUp(node)) world.start(node);
  });
}

/** A manager whose group has no other member yet. */
function bootstrappingManager(world: SimulatedWorld<unknown>): string | undefined {
  return world.names.find(
    (name) => simulatedNodeOf(world, name)?.core?.control?.manager?.group.view().members.length === 1,
  );
}

export const leaderFaults = {
  killLeader: repeatedly(3_000, (context) => crashNode(context, leaderNameOf(context.world), 5_000)),

  /** Strikes often enough to crash the manager before it has added other members. */
  killBootstrappingManager: repeatedly(20, (context) =>
    crashNode(context, bootstrappingManager(context.world), 12_000),
  ),
} as const satisfies Readonly<Record<string, Fault>>;
