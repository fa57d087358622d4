/**
 * `remuster/testing`: a whole cluster inside one process, for users' own tests. The nodes run the real code on a
 * pretend network, pretend disks and virtual time, so a minute passes in milliseconds and the same seed always gives
 * the same run.
 *
 *     const cluster = simulateCluster({ nodes: 3 });
 *     await cluster.advance(5_000);
 *     cluster.kill('n2');
 *     await cluster.advance(30_000);
 *     cluster.members('n1');   // n2 is dead
 */
import { RemusterError } from '../base/errors.ts';
import type { MemberRow } from '../node/own-truth.ts';
import { bootHostedNode, type HostedNode, simulatedPort } from './hosted-node.ts';
import { World } from './world.ts';

export type { MemberRow } from '../node/own-truth.ts';

export type SimulatedClusterOptions = {
  /** How many nodes; they are called n1, n2 and so on, and n1 is the seed of the others. */
  readonly nodes?: number;
  readonly seed?: string | number;
  /** Gets each line of the event log. */
  readonly onLine?: (line: string) => void;
};

export type SimulatedCluster = {
  readonly names: readonly string[];
  /** Virtual milliseconds since the beginning. */
  nowMs(): number;
  /** Lets virtual time pass. Promises of the test that depend on it settle meanwhile. */
  advance(durationMs: number): Promise<void>;
  /** Ends the process at once; its disk stays as it is, its host refuses connections. */
  kill(name: string): void;
  /** Ends the host at once; what was not synced is lost, and nobody refuses anything. */
  losePower(name: string): void;
  /** Starts a node that is down, on the disk it had. */
  restart(name: string): void;
  /** The process stands still while the world goes on. */
  pause(name: string, durationMs: number): void;
  /** Groups that hear nobody outside; nodes that are in no group are a group of their own. */
  partition(...groups: readonly (readonly string[])[]): void;
  /** Links, disks and clocks are well again; who is down stays down. */
  heal(): void;
  /** What that node believes about all nodes, itself included. */
  members(name: string): readonly MemberRow[];
  /** The last lines of the event log. */
  lastLines(count?: number): readonly string[];
};

const linesTold = 50;

export function simulateCluster(options: SimulatedClusterOptions = {}): SimulatedCluster {
  const names = Array.from({ length: options.nodes ?? 3 }, (_, index) => `n${index + 1}`);
  const world: World<HostedNode> = new World<HostedNode>({
    seed: `testing/${options.seed ?? 1}`,
    names,
    rarities: false,
    sink: options.onLine,
    boot: (ports, context) => {
      const seed = world.host(names[0] as string).address;
      return bootHostedNode(ports, context, { join: [{ host: seed, port: simulatedPort }] });
    },
  });
  let mistake: unknown;
  world.watch((event) => {
    if (event.kind === 'threw') mistake ??= event.error;
  });
  world.startAll();
  return {
    names,
    nowMs: () => world.timeline.nowMs,
    advance: async (durationMs) => {
      await pass(world, durationMs);
      if (mistake !== undefined) throw mistake;
    },
    kill: (name) => world.crash(known(names, name), 'kept'),
    losePower: (name) => world.crash(known(names, name), 'lost'),
    restart: (name) => {
      if (world.isUp(known(names, name))) throw new RemusterError('BAD_ARGUMENT', `${name} is already running`);
      world.start(name);
    },
    pause: (name, durationMs) => world.stall(known(names, name), durationMs),
    partition: (...groups) => {
      const rest = names.filter((name) => !groups.some((group) => group.includes(name)));
      const all = rest.length > 0 ? [...groups, rest] : groups;
      for (const name of all.flat()) known(names, name);
      world.partition(all);
    },
    heal: () => world.heal(),
    members: (name) => world.program(known(names, name))?.core?.members() ?? [],
    lastLines: (count = linesTold) => world.log.last(count),
  };
}

/** Between two events everybody who awaits something gets a turn. */
async function pass(world: World<unknown>, durationMs: number): Promise<void> {
  const { timeline } = world;
  const untilMs = timeline.nowMs + durationMs;
  while ((timeline.nextMs() ?? Infinity) <= untilMs) {
    timeline.step();
    await Promise.resolve();
  }
  timeline.runUntil(untilMs);
}

function known(names: readonly string[], name: string): string {
  if (!names.includes(name))
    throw new RemusterError('BAD_ARGUMENT', `there is no node ${name}, only ${names.join(' ')}`);
  return name;
}
