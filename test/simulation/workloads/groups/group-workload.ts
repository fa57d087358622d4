/**
 * Workloads of voters that replicate cells, and their clients. Each seed draws its own limits, so that snapshots and
 * full queues occur. In `quietGroup` clients rarely write, so logs are mostly equal; in `steadyGroup` no sender drops a
 * message, so a leader has no reason to go.
 */
import { Random } from '../../../../src/base/random.ts';
import { type ConsensusOptions, defaultConsensusOptions } from '../../../../src/consensus/state/options.ts';
import type { WorkloadRun, WorkloadContext, Workload } from '../../checking/workload.ts';
import { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { GroupClients } from './group-clients.ts';
import type { GroupNodeStatus } from '../../checking/group-observations.ts';
import { bootGroupNode, type GroupNode, diskHasEntry, groupMemberAt } from './group-node.ts';

const sparesCount = 2;
const standingEveryMs = 500;

type Kind = { readonly spares: number; readonly rarities: boolean; readonly areQuiet: boolean };

const usual: Kind = { spares: 0, rarities: true, areQuiet: false };

export const groupWorkloads = {
  group: (spec) => runGroup(spec, usual),
  groupWithSpares: (spec) => runGroup(spec, { ...usual, spares: sparesCount }),
  quietGroup: (spec) => runGroup(spec, { ...usual, areQuiet: true }),
  steadyGroup: (spec) => runGroup(spec, { ...usual, rarities: false }),
} as const satisfies Readonly<Record<string, Workload>>;

function runGroup(spec: WorkloadContext, { spares, rarities, areQuiet }: Kind): WorkloadRun {
  const { seed, names, detailed, sink, observe } = spec;
  const random = new Random(seed).fork('group');
  const options = drawOptions(random.fork('options'));
  const firstNames = names.slice(0, names.length - spares);
  const world: SimulatedWorld<GroupNode> = new SimulatedWorld<GroupNode>({
    ...{ seed, names, detailed, sink, rarities },
    boot: (ports, context) => {
      const everybody = names.map((name) => groupMemberAt(world.host(name).index, name, world.host(name).address));
      const first = firstNames.includes(context.name) ? everybody.slice(0, firstNames.length) : [];
      const leased = (): string[] =>
        names.filter((name) => world.program(name)?.handle?.leadership.isLeading() === true);
      const nameOf = (id: string): string => everybody.find((member) => member.id === id)?.name ?? id;
      const hasOnDisk = (name: string, index: number): boolean => diskHasEntry(world.host(name).disk, index);
      const witnesses = { observe, nameOf, leased, hasOnDisk, nowMs: () => world.timeline.nowMs };
      return bootGroupNode(ports, context, { witnesses, everybody, first, options });
    },
  });
  const clients = new GroupClients({ world, random, count: 2 + random.below(4), areQuiet, observe });
  const look = (): void => {
    observe({ kind: 'standing', seats: groupStatus(world) });
    world.timeline.after(standingEveryMs, look);
  };
  return {
    world,
    start: () => {
      world.log.add('world', `options ${JSON.stringify(options)}`);
      clients.start();
      look();
    },
    stopWork: () => clients.stop(),
    clusterOf: () => 'simulated',
    aliveViews: () => new Map(),
    durableValue: () => 0,
  };
}

function drawOptions(random: Random): ConsensusOptions {
  const snapshotEntriesMax = random.pick([20, 60, 200, defaultConsensusOptions.snapshotEntriesMax]);
  // Of many parts, so that something happens before the last of them is written; or of one.
  const snapshotPartBytes = snapshotEntriesMax === 20 ? 128 : defaultConsensusOptions.snapshotPartBytes;
  return {
    ...defaultConsensusOptions,
    snapshotEntriesMax,
    snapshotPartBytes,
    tailEntriesMax: random.pick([0, 5, 30]),
    proposalsMax: random.pick([2, 100, 1_000]),
    appendBytes: random.pick([300, 2_000, defaultConsensusOptions.appendBytes]),
    appendsInFlightMax: random.pick([1, 3, defaultConsensusOptions.appendsInFlightMax]),
  };
}

/** Members are those whom the leader counts; without a leader everybody speaks for itself. */
function groupStatus(world: SimulatedWorld<GroupNode>): GroupNodeStatus[] {
  const seats = world.names.flatMap((name) => {
    const seat = world.program(name);
    return seat?.handle === undefined ? [] : [{ seat, handle: seat.handle, view: seat.handle.view() }];
  });
  const leader = seats.find(({ handle }) => handle.leadership.isLeading());
  return seats.map(({ seat, handle, view }) => ({
    node: seat.name,
    isLeading: handle.leadership.isLeading(),
    leader: seats.find((other) => other.seat.id === view.leader)?.seat.name,
    term: view.term,
    isMember: leader === undefined ? view.self !== 'outside' : leader.view.members.some(({ id }) => id === seat.id),
    index: seat.ledger.index,
    chain: seat.ledger.chainHash,
  }));
}
