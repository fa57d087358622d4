/** What a user's test can do to a simulated cluster and see of it: kill, partition, pause, advance, members. */
import { RemusterError } from '../../base/errors.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import type { MemberRow } from '../../node/membership/member-rows.ts';
import type { SimulatedNode } from './simulated-node.ts';
import type { SimulatedWorld } from '../world/simulated-world.ts';

export type ClusterControls = {
  readonly names: readonly string[];
  /** Virtual milliseconds since the beginning. */
  readonly nowMs: () => number;
  /** Lets virtual time pass: milliseconds, or a text such as '5s'. Promises of the test that depend on it settle meanwhile. */
  readonly advance: (duration: number | string) => Promise<void>;
  /** Ends the process at once; its disk stays as it is, its host refuses connections. */
  readonly kill: (name: string) => void;
  /** Ends the host at once; what was not synced is lost, and nobody refuses anything. */
  readonly losePower: (name: string) => void;
  /** Starts a node that is down, on the disk it had. */
  readonly restart: (name: string) => void;
  /** The process stands still while the world goes on. */
  readonly pause: (name: string, durationMs: number) => void;
  /** Groups that hear nobody outside; nodes that are in no group are a group of their own. */
  readonly partition: (...groups: readonly (readonly string[])[]) => void;
  /** Links, disks and clocks are well again; who is down stays down. */
  readonly heal: () => void;
  /** What that node believes about all nodes, itself included. */
  readonly members: (name: string) => readonly MemberRow[];
  /** The last lines of the event log. */
  readonly lastLines: (count?: number) => readonly string[];
};

const linesTold = 50;

export function createClusterControls(
  world: SimulatedWorld<SimulatedNode>,
  advance: (durationMs: number) => Promise<void>,
): ClusterControls {
  const { names } = world;
  return {
    names,
    nowMs: () => world.timeline.nowMs,
    advance: (duration) => advance(parseOptionDuration(duration) ?? refuse(duration)),
    kill: (name) => world.crash(known(names, name), 'kept'),
    losePower: (name) => world.crash(known(names, name), 'lost'),
    restart: (name) => {
      if (world.isUp(known(names, name))) throw new RemusterError('BAD_ARGUMENT', `${name} is already running`);
      world.start(name);
    },
    pause: (name, durationMs) => world.pauseNode(known(names, name), durationMs),
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

function refuse(duration: number | string): never {
  throw new RemusterError('BAD_ARGUMENT', `"${duration}" is no duration such as 500 or 5s`);
}

function known(names: readonly string[], name: string): string {
  if (!names.includes(name))
    throw new RemusterError('BAD_ARGUMENT', `there is no node ${name}, only ${names.join(' ')}`);
  return name;
}
