/** Faults that aim at the managers of whole nodes: at the one that begins their group, and at the one that leads it. */
import { type Fault, type Nemesis, repeatedly } from './faults.ts';
import type { HostedNode } from './hosted-node.ts';
import type { World } from './world.ts';

export function nodeAt(world: World<unknown>, name: string): HostedNode | undefined {
  return world.program(name) as HostedNode | undefined;
}

export function leaderOf(world: World<unknown>): string | undefined {
  return world.names.find((name) => nodeAt(world, name)?.core?.control?.leadership.isLeading() === true);
}

/** It comes back, sooner or later. */
export function crash({ world, random, after }: Nemesis, node: string | undefined, downMsMax: number): void {
  if (node === undefined || !world.isUp(node)) return;
  world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
  after(random.between(50, downMsMax), () => {
    if (!world.isUp(node)) world.start(node);
  });
}

/** A manager that is a group by itself. */
function founderOf(world: World<unknown>): string | undefined {
  return world.names.find((name) => nodeAt(world, name)?.core?.control?.seat?.group.view().members.length === 1);
}

export const controlledFaults = {
  killLeader: repeatedly(3_000, (nemesis) => crash(nemesis, leaderOf(nemesis.world), 5_000)),

  /** Looks often, so that it strikes before others have been taken in or have even heard of the group. */
  killFounder: repeatedly(20, (nemesis) => crash(nemesis, founderOf(nemesis.world), 12_000)),
} as const satisfies Readonly<Record<string, Fault>>;
