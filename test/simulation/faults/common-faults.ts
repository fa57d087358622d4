/**
 * Faults of any workload: partition, loss, delay, crash, pause, drift, disk. Each strikes at random times and undoes
 * itself.
 */
import type { Random } from '../../../src/base/random.ts';
import type { DiskConditions } from '../../../src/simulation/engine/simulated-disk.ts';
import type { LinkConditions } from '../../../src/simulation/engine/simulated-network.ts';
import type { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';

export type FaultContext = {
  readonly world: SimulatedWorld<unknown>;
  readonly random: Random;
  readonly intensity: number;
  /** Like a timer of the world, but it does not fire after the faults are over. */
  readonly after: (delayMs: number, run: () => void) => void;
};

export type Fault = (context: FaultContext) => void;

/** Strikes at intervals of about `meanMs`, more often with more intensity. */
export function repeatedly(meanMs: number, strike: Fault): Fault {
  return (context) => {
    const scheduleNext = (): void => {
      context.after((context.random.between(0.1, 1.9) * meanMs) / context.intensity, () => {
        strike(context);
        scheduleNext();
      });
    };
    scheduleNext();
  };
}

function someNodes({ world, random }: FaultContext): string[] {
  return random.shuffled(world.names).slice(0, 1 + random.below(Math.max(1, world.names.length - 1)));
}

/** Changes all links from and to some nodes for a while. */
export function linkFault(draw: (random: Random) => Partial<LinkConditions>): Fault {
  return repeatedly(8_000, (context) => {
    const { world, random } = context;
    const patch = draw(random);
    const names = Object.keys(patch) as (keyof LinkConditions)[];
    const hit = someNodes(context);
    world.log.add(
      'world',
      `links of ${hit.join(',')} get ${names.map((name) => `${name}=${print(patch[name])}`).join(' ')}`,
    );
    for (const [from, to] of linksOf(world, hit)) world.network.change(from, to, patch);
    context.after(random.between(500, 10_000), () => {
      world.log.add('world', `links of ${hit.join(',')} lose ${names.join(' ')}`);
      for (const [from, to] of linksOf(world, hit)) world.network.restore(from, to, names);
    });
  });
}

function* linksOf(world: SimulatedWorld<unknown>, hit: readonly string[]): Generator<[number, number]> {
  for (const node of hit) {
    for (const other of world.names) {
      if (other === node) continue;
      const [a, b] = [world.host(node).index, world.host(other).index];
      yield [a, b];
      yield [b, a];
    }
  }
}

function print(value: number | undefined): string {
  return (value ?? 0).toFixed(2);
}

function crashing(power: 'kept' | 'lost'): Fault {
  return repeatedly(6_000, (context) => {
    const { world, random } = context;
    const node = random.pick(world.names);
    if (!world.isUp(node)) return;
    world.crash(node, power);
    context.after(random.between(50, 12_000), () => {
      if (!world.isUp(node)) world.start(node);
    });
  });
}

/** Changes one disk for a while. */
function disks(change: (random: Random) => Partial<DiskConditions>): Fault {
  return repeatedly(6_000, (context) => {
    const { world, random } = context;
    const node = random.pick(world.names);
    const patch = change(random);
    world.log.add(node, `disk gets ${JSON.stringify(patch)}`);
    world.host(node).disk.change(patch);
    context.after(random.between(200, 8_000), () => {
      world.log.add(node, 'disk recovers');
      world.host(node).disk.heal();
    });
  });
}

export const commonFaults = {
  partition: repeatedly(10_000, (context) => {
    const { world, random } = context;
    const group = someNodes(context);
    const rest = world.names.filter((name) => !group.includes(name));
    if (rest.length > 0) context.after(random.between(200, 20_000), world.partition([group, rest]));
  }),

  oneWayCut: repeatedly(6_000, (context) => {
    const { world, random } = context;
    const from = random.pick(world.names);
    const others = random.shuffled(world.names.filter((name) => name !== from));
    const to = others.slice(0, 1 + random.below(Math.max(1, others.length)));
    world.log.add(from, `is cut off from ${to.join(',')} in this direction`);
    for (const other of to) world.cut(from, other);
    context.after(random.between(200, 15_000), () => {
      world.log.add(from, `reaches ${to.join(',')} again`);
      for (const other of to) world.mend(from, other);
    });
  }),

  loss: linkFault((random) => ({ lossRatio: random.between(0.02, 0.4) })),
  delay: linkFault((random) => ({ delayMs: random.between(5, 400) })),
  jitter: linkFault((random) => ({ jitterMs: random.between(5, 400) })),
  duplicate: linkFault((random) => ({ duplicateRatio: random.between(0.05, 0.6) })),
  reorder: linkFault((random) => ({ reorderRatio: random.between(0.05, 0.6) })),
  bandwidth: linkFault((random) => ({ bytesPerSecond: Math.round(random.between(2_000, 200_000)) })),

  powerLoss: crashing('lost'),
  kill: crashing('kept'),

  stall: repeatedly(5_000, ({ world, random }) => {
    const node = random.pick(world.names);
    if (world.isUp(node)) world.pauseNode(node, random.between(20, 6_000));
  }),

  drift: repeatedly(8_000, ({ world, random }) => {
    const node = random.pick(world.names);
    const rate = random.between(0.8, 1.2);
    world.log.add(node, `clock runs at ${rate.toFixed(3)} of its speed`);
    world.host(node).setRate(rate);
    world.host(node).setWallOffset(Math.round(random.between(-3_600_000, 3_600_000)));
  }),

  slowDisk: disks((random) => ({ operationMs: random.between(2, 500) })),
  fullDisk: disks(() => ({ full: true })),

  bitRot: repeatedly(10_000, ({ world, random }) => {
    const node = random.pick(world.names);
    world.log.add(node, `a bit of ${world.host(node).disk.flipRandomBit()} flips`);
  }),
} as const satisfies Readonly<Record<string, Fault>>;
