/** Faults that target jobs: busy workers and the leading manager. */
import { crashNode, leaderNameOf, simulatedNodeOf } from '../../faults/leader-faults.ts';
import { type Fault, type FaultContext, repeatedly } from '../../faults/common-faults.ts';

function randomBusyWorker({ world, random }: FaultContext): string | undefined {
  const busy = world.names.filter(
    (name) => (simulatedNodeOf(world, name)?.core?.jobs?.worker?.runningUnits() ?? 0) > 0,
  );
  return busy.length === 0 ? undefined : random.pick(busy);
}

export const jobFaults = {
  killBusyWorker: repeatedly(4_000, (nemesis) => crashNode(nemesis, randomBusyWorker(nemesis), 8_000)),

  /** Stands still, or is heard by nobody, until others may have what it runs; then it goes on. */
  silenceWorker: repeatedly(1_500, (nemesis) => {
    const { world, random, after } = nemesis;
    const node = randomBusyWorker(nemesis);
    if (node === undefined) return;
    // Often it comes back just when somebody else has begun.
    const durationMs = random.chance(0.5) ? random.between(4_300, 5_800) : random.between(2_000, 9_000);
    if (random.chance(0.4)) return world.pauseNode(node, durationMs);
    const others = world.names.filter((name) => name !== node);
    const managers = others.filter(
      (name) => simulatedNodeOf(world, name)?.identity?.roles.includes('manager') === true,
    );
    after(durationMs, world.partition([[node], random.chance(0.5) ? others : managers]));
  }),

  /** The manager that leads stands still, or hears and is heard by nobody, and goes on when another one leads. */
  silenceLeader: repeatedly(5_000, (nemesis) => {
    const { world, random, after } = nemesis;
    const node = leaderNameOf(world);
    if (node === undefined) return;
    const durationMs = random.between(1_500, 6_000);
    if (random.chance(0.5)) return world.pauseNode(node, durationMs);
    after(durationMs, world.partition([[node], world.names.filter((name) => name !== node)]));
  }),
} as const satisfies Readonly<Record<string, Fault>>;
