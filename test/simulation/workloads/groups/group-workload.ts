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
const statusEveryMs = 500;

type GroupWorkloadKind = { readonly spares: number; readonly failpoints: boolean; readonly areQuiet: boolean };

const usual: GroupWorkloadKind = { spares: 0, failpoints: true, areQuiet: false };

export const groupWorkloads = {
  group: (context) => runGroup(context, usual),
  groupWithSpares: (context) => runGroup(context, { ...usual, spares: sparesCount }),
  quietGroup: (context) => runGroup(context, { ...usual, areQuiet: true }),
  steadyGroup: (context) => runGroup(context, { ...usual, failpoints: false }),
} as const satisfies Readonly<Record<string, Workload>>;

function runGroup(workload: WorkloadContext, { spares, failpoints, areQuiet }: GroupWorkloadKind): WorkloadRun {
  const { seed, names, detailed, sink, observe } = workload;
  const random = new Random(seed).fork('group');
  const options = drawOptions(random.fork('options'));
  const firstNames = names.slice(0, names.length - spares);
  const world: SimulatedWorld<GroupNode> = new SimulatedWorld<GroupNode>({
    ...{ seed, names, detailed, sink, failpoints },
    boot: (ports, context) => {
      const candidates = names.map((name) => groupMemberAt(world.host(name).index, name, world.host(name).address));
      const first = firstNames.includes(context.name) ? candidates.slice(0, firstNames.length) : [];
      const leased = (): string[] =>
        names.filter((name) => world.program(name)?.handle?.leadership.isLeading() === true);
      const nameOf = (id: string): string => candidates.find((member) => member.id === id)?.name ?? id;
      const hasOnDisk = (name: string, index: number): boolean => diskHasEntry(world.host(name).disk, index);
      const observerPorts = { observe, nameOf, leased, hasOnDisk, nowMs: () => world.timeline.nowMs };
      return bootGroupNode(ports, context, { observerPorts, candidates, first, consensus: options });
    },
  });
  const clients = new GroupClients({ world, random, count: 2 + random.below(4), areQuiet, observe });
  const readStatus = (): void => {
    observe({ kind: 'groupStatus', nodes: groupStatus(world) });
    world.timeline.after(statusEveryMs, readStatus);
  };
  return {
    world,
    start: () => {
      world.log.add('world', `options ${JSON.stringify(options)}`);
      clients.start();
      readStatus();
    },
    stopWork: () => clients.stop(),
    clusterOf: () => 'simulated',
    aliveViews: () => new Map(),
    durableValue: () => 0,
  };
}

function drawOptions(random: Random): ConsensusOptions {
  const snapshotEntriesMax = random.pick([20, 60, 200, defaultConsensusOptions.snapshotEntriesMax]);
  // Snapshots have many parts, so that a crash can come before the last part; or one.
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

/** Members are those in the configuration of the leader; without a leader each node uses its own view. */
function groupStatus(world: SimulatedWorld<GroupNode>): GroupNodeStatus[] {
  const groupNodes = world.names.flatMap((name) => {
    const groupNode = world.program(name);
    return groupNode?.handle === undefined
      ? []
      : [{ groupNode, handle: groupNode.handle, view: groupNode.handle.view() }];
  });
  const leader = groupNodes.find(({ handle }) => handle.leadership.isLeading());
  return groupNodes.map(({ groupNode, handle, view }) => ({
    node: groupNode.name,
    isLeading: handle.leadership.isLeading(),
    leader: groupNodes.find((other) => other.groupNode.id === view.leader)?.groupNode.name,
    term: view.term,
    isMember:
      leader === undefined ? view.self !== 'outside' : leader.view.members.some(({ id }) => id === groupNode.id),
    index: groupNode.cells.index,
    chain: groupNode.cells.chainHash,
  }));
}
