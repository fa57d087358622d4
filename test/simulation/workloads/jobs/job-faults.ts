/** Faults of jobs: crashed and isolated workers, and an isolated leader. */
import { crashNode, leaderNameOf, simulatedNodeOf } from '../../faults/leader-faults.ts';
import { type Fault, type FaultContext, repeatedly } from '../../faults/common-faults.ts';

function randomBusyWorker({ world, random }: FaultContext): string | undefined {
  const busy = world.names.filter(
    (name) => (simulatedNodeOf(world, name)?.core?.jobs?.worker?.runningUnits() ?? 0) > 0,
  );
  return busy.length === 0 ? undefined : random.pick(busy);
}

export const jobFaults = {
  killBusyWorker: repeatedly(4_000, (context) => crashNode(context, randomBusyWorker(context), 8_000)),

  /** A busy worker is paused or partitioned until its units can run elsewhere; then it resumes. */
  isolateWorker: repeatedly(1_500, (context) => {
    const { world, random, after } = context;
    const node = randomBusyWorker(context);
    if (node === undefined) return;
    // Often it resumes just after another worker has started the unit.
    const durationMs = random.chance(0.5) ? random.between(4_300, 5_800) : random.between(2_000, 9_000);
    if (random.chance(0.4)) return world.pauseNode(node, durationMs);
    const others = world.names.filter((name) => name !== node);
    const managers = others.filter(
      (name) => simulatedNodeOf(world, name)?.identity?.roles.includes('manager') === true,
    );
    after(durationMs, world.partition([[node], random.chance(0.5) ? others : managers]));
  }),

  /** The leader is paused or partitioned, and resumes when another manager leads. */
  isolateLeader: repeatedly(5_000, (context) => {
    const { world, random, after } = context;
    const node = leaderNameOf(world);
    if (node === undefined) return;
    const durationMs = random.between(1_500, 6_000);
    if (random.chance(0.5)) return world.pauseNode(node, durationMs);
    after(durationMs, world.partition([[node], world.names.filter((name) => name !== node)]));
  }),
} as const satisfies Readonly<Record<string, Fault>>;
