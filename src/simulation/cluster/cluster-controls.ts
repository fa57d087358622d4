/**
 * Public controls of a simulated cluster for users' tests: kill, partition, pause, advance, members. Rejects the name
 * of an unknown node with BAD_ARGUMENT.
 */
import { RemusterError } from '../../base/errors.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import type { MemberRow } from '../../node/membership/member-rows.ts';
import type { SimulatedNode } from './simulated-node.ts';
import type { SimulatedWorld } from '../world/simulated-world.ts';

export type ClusterControls = {
  readonly names: readonly string[];
  /** Virtual milliseconds since the start. */
  readonly nowMs: () => number;
  /** Advances virtual time by milliseconds or a duration such as '5s'. Promises that depend on it settle meanwhile. */
  readonly advance: (duration: number | string) => Promise<void>;
  /** Kills the process; its disk keeps everything, its host refuses connections. */
  readonly kill: (name: string) => void;
  /** Cuts the power of the host; unsynced data is lost, and connections time out. */
  readonly losePower: (name: string) => void;
  /** Starts a node that is down, with its disk. */
  readonly restart: (name: string) => void;
  /** Pauses the process while virtual time goes on. */
  readonly pause: (name: string, durationMs: number) => void;
  /** Groups that exchange no messages; the nodes in no group form one more group. */
  readonly partition: (...groups: readonly (readonly string[])[]) => void;
  /** Ends all faults of links, disks and clocks; a node that is down stays down. */
  readonly heal: () => void;
  /** The view of that node of all members, itself included. */
  readonly members: (name: string) => readonly MemberRow[];
  /** The last lines of the event log. */
  readonly lastLines: (count?: number) => readonly string[];
};

const lastLinesDefault = 50;

export function createClusterControls(
  world: SimulatedWorld<SimulatedNode>,
  advance: (durationMs: number) => Promise<void>,
): ClusterControls {
  const { names } = world;
  return {
    names,
    nowMs: () => world.timeline.nowMs,
    advance: (duration) => advance(parseOptionDuration(duration) ?? rejectDuration(duration)),
    kill: (name) => world.crash(checkName(names, name), 'kept'),
    losePower: (name) => world.crash(checkName(names, name), 'lost'),
    restart: (name) => {
      if (world.isUp(checkName(names, name))) throw new RemusterError('BAD_ARGUMENT', `${name} is already running`);
      world.start(name);
    },
    pause: (name, durationMs) => world.pauseNode(checkName(names, name), durationMs),
    partition: (...groups) => {
      const rest = names.filter((name) => !groups.some((group) => group.includes(name)));
      const all = rest.length > 0 ? [...groups, rest] : groups;
      for (const name of all.flat()) checkName(names, name);
      world.partition(all);
    },
    heal: () => world.heal(),
    members: (name) => world.program(checkName(names, name))?.core?.members() ?? [],
    lastLines: (count = lastLinesDefault) => world.log.last(count),
  };
}

function rejectDuration(duration: number | string): never {
  throw new RemusterError('BAD_ARGUMENT', `"${duration}" is not a duration: write milliseconds or a text such as '5s'`);
}

function checkName(names: readonly string[], name: string): string {
  if (!names.includes(name))
    throw new RemusterError('BAD_ARGUMENT', `there is no node ${name}: the nodes are ${names.join(', ')}`);
  return name;
}
