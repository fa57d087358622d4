/**
 * Faults of consensus groups: configuration changes, transfers, unhealthy voters, message faults, crashes at a vote.
 */
import type { GroupChange, GroupMember } from '../../../../src/consensus/state/state-machine.ts';
import { type Fault, type FaultContext, repeatedly } from '../../faults/common-faults.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { type GroupNode, nodeIdAt, type MessageFaults } from './group-node.ts';

const changeMs = 4_000;
const votersMin = 3;
/** Message faults end this long after their last renewal. */
const renewedMs = 400;

function groupNodeOf(world: SimulatedWorld<unknown>, name: string): GroupNode | undefined {
  return world.program(name) as GroupNode | undefined;
}

/** Runs in the process of the node: later if it is paused, never if it is down. */
function on(world: SimulatedWorld<unknown>, name: string, run: (groupNode: GroupNode) => void): void {
  world.host(name).process?.run(() => {
    const groupNode = groupNodeOf(world, name);
    if (groupNode !== undefined) run(groupNode);
  });
}

function leaderNode(world: SimulatedWorld<unknown>): GroupNode | undefined {
  const groupNodes = world.names.map((name) => groupNodeOf(world, name));
  return groupNodes.find((groupNode) => groupNode?.handle?.leadership.isLeading() === true);
}

function nameOf(world: SimulatedWorld<unknown>, id: string): string {
  return world.names.find((name) => groupNodeOf(world, name)?.id === id) ?? id;
}

/**
 * Adds nodes outside the group, promotes caught-up members, removes members (the leader and dead ones too) down to
 * three voters. Sometimes proposes two changes at once: the leader must refuse the second.
 */
function changeMembers({ world, random }: FaultContext): void {
  const groupNode = leaderNode(world);
  for (let count = groupNode === undefined ? 0 : 1 + random.below(2); count > 0; count--) {
    on(world, groupNode?.name ?? '', (leader) => {
      const { name, handle, candidates } = leader;
      if (handle === undefined) return;
      const change = random.pick(changesOf(handle.view().members, candidates));
      const text = `${change.kind} ${change.kind === 'add' ? change.member.name : nameOf(world, change.id)}`;
      world.log.add(name, `starts to ${text}`);
      leader.change(change, changeMs, (ok) => world.log.add(name, `${ok ? 'completed' : 'failed'}: ${text}`));
    });
  }
}

function changesOf(members: readonly GroupMember[], candidates: readonly GroupMember[]): readonly GroupChange[] {
  const outside = candidates.filter(({ id }) => !members.some((member) => member.id === id));
  const syncing = members.filter(({ standing }) => standing === 'syncing');
  const removable = members.length - syncing.length > votersMin ? members : syncing;
  const changes: readonly GroupChange[] = [
    ...outside.map((member) => ({ kind: 'add', member }) as const),
    ...syncing.flatMap(({ id }) => [{ kind: 'promote', id } as const, { kind: 'promote', id } as const]),
    ...removable.map(({ id }) => ({ kind: 'remove', id }) as const),
  ];
  return changes.length > 0 ? changes : candidates.slice(0, 1).map((member) => ({ kind: 'add', member }));
}

function faultyMessages({ world, random, after }: FaultContext): void {
  const node = random.pick(world.names);
  const messageFaults: Omit<MessageFaults, 'untilMs'> = {
    lossRatio: random.chance(0.5) ? random.between(0, 0.5) : 0,
    doubleRatio: random.between(0, 0.5),
    holdRatio: random.between(0, 0.5),
    holdMs: random.between(1, 600),
  };
  world.log.add(node, `message faults ${JSON.stringify(messageFaults)}`);
  const renew = (untilMs: number): void => {
    const { nowMs } = world.timeline;
    const groupNode = groupNodeOf(world, node);
    if (groupNode !== undefined) groupNode.messageFaults = { ...messageFaults, untilMs: nowMs + renewedMs };
    if (nowMs < untilMs) after(renewedMs / 2, () => renew(untilMs));
  };
  renew(world.timeline.nowMs + random.between(500, 8_000));
}

/** A voter may crash before, while or after its vote is sent, and restarts at once. */
function crashAtVote(context: FaultContext): void {
  const { world, random, intensity, after } = context;
  const strike = (node: string): void => {
    if (!random.chance(0.5 * intensity)) return;
    after(random.chance(0.5) ? 0 : random.between(0, 20), () => {
      world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
      after(random.between(1, 20), () => {
        if (!world.isUp(node)) world.start(node);
      });
    });
  };
  const arm = (): void => {
    for (const name of world.names) {
      const groupNode = groupNodeOf(world, name);
      if (groupNode !== undefined) groupNode.onVote = () => strike(name);
    }
    after(20, arm);
  };
  arm();
}

/** After this time the follower that was isolated last follows the leader again. */
const recoveryMs = 3_000;

/** Isolates one follower at a time: by the network, a kill or a stall. */
function isolateFollowers(context: FaultContext): void {
  let freeMs = 0;
  repeatedly(2_000, ({ world, random }) => {
    const leader = leaderNode(world);
    if (leader === undefined || world.timeline.nowMs < freeMs) return;
    const node = random.pick(world.names.filter((name) => name !== leader.name));
    const forMs = random.between(200, 8_000);
    freeMs = world.timeline.nowMs + forMs + recoveryMs;
    isolate(context, node, forMs);
  })(context);
}

function isolate({ world, random, after }: FaultContext, node: string, forMs: number): void {
  const way = random.below(4);
  if (way === 0) world.pauseNode(node, forMs);
  else if (way === 1) {
    world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
    world.timeline.after(forMs, () => {
      if (!world.isUp(node)) world.start(node);
    });
  } else after(forMs, world.partition([[node], world.names.filter((name) => name !== node)]));
}

export const groupFaults = {
  changeMembers: repeatedly(700, changeMembers),

  transfer: repeatedly(1_200, ({ world, random }) => {
    const groupNode = leaderNode(world);
    if (groupNode?.handle === undefined) return;
    const { members } = groupNode.handle.view();
    const to = random.chance(0.3) ? undefined : random.pick(members).id;
    const timeoutMs = random.between(200, 3_000);
    world.log.add(groupNode.name, `transfers leadership to ${to === undefined ? 'any voter' : nameOf(world, to)}`);
    on(world, groupNode.name, ({ handle }) => handle?.transfer(to, timeoutMs, () => undefined));
  }),

  unhealthyVoter: repeatedly(4_000, ({ world, random }) => {
    const node = random.pick(world.names);
    const health = random.between(0, 8);
    world.log.add(node, `health score ${health.toFixed(1)}`);
    on(world, node, (groupNode) => groupNode.setHealth(health));
    world.timeline.after(random.between(200, 3_000), () => on(world, node, (groupNode) => groupNode.setHealth(0)));
  }),

  /** A node gets the notice that a process of another node is gone; it is always true. */
  processGoneNotice: repeatedly(1_500, ({ world, random }) => {
    const [node, gone] = [random.pick(world.names), random.pick(world.names)];
    const last = world.bootCount(gone) - (world.isUp(gone) ? 1 : 0);
    if (last === 0) return;
    world.log.add(node, `gets notice that generation ${last} of ${gone} is gone`);
    on(world, node, (groupNode) => groupNode.reportProcessGone(nodeIdAt(world.host(gone).index), last));
  }),

  messageFaults: repeatedly(4_000, faultyMessages),
  crashAtVote,

  /** Restarts the leader. When all voters get notice of the crash at once, several become candidates at once. */
  crashLeader: repeatedly(4_000, ({ world, random, after }) => {
    const node = leaderNode(world)?.name;
    if (node === undefined) return;
    const [generation, isReported] = [world.bootCount(node), random.chance(0.6)];
    world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
    for (const other of isReported ? world.names : []) {
      after(random.between(0, 30), () =>
        on(world, other, (groupNode) => groupNode.reportProcessGone(nodeIdAt(world.host(node).index), generation)),
      );
    }
    after(random.between(1, 6_000), () => {
      if (!world.isUp(node)) world.start(node);
    });
  }),

  stallLeader: repeatedly(1_500, ({ world, random }) => {
    const node = leaderNode(world)?.name;
    if (node !== undefined) world.pauseNode(node, random.between(100, 2_500));
  }),

  /** A node restarts before any other node can detect it. */
  quickRestart: repeatedly(500, ({ world, random, after }) => {
    const node = random.pick(world.names);
    if (!world.isUp(node)) return;
    world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
    after(random.between(1, 100), () => {
      if (!world.isUp(node)) world.start(node);
    });
  }),

  /** One follower receives nothing from the leader, but all others do: it starts elections. */
  cutFollower: repeatedly(3_000, ({ world, random, after }) => {
    const leader = leaderNode(world)?.name;
    if (leader === undefined) return;
    const node = random.pick(world.names.filter((name) => name !== leader));
    world.log.add(node, `receives nothing from the leader ${leader}`);
    world.cut(leader, node);
    after(random.between(500, 5_000), () => world.mend(leader, node));
  }),

  /** One follower receives nothing from the leader, and the other followers restart while it starts elections. */
  restartingVoters: repeatedly(1_500, ({ world, random, after }) => {
    const leader = leaderNode(world)?.name;
    if (leader === undefined) return;
    const [node, ...others] = random.shuffled(world.names.filter((name) => name !== leader));
    if (node === undefined || others.length === 0) return;
    const untilMs = world.timeline.nowMs + random.between(2_000, 8_000);
    world.log.add(node, `receives nothing from the leader ${leader}, and the others restart`);
    world.cut(leader, node);
    const restartOne = (): void => {
      if (world.timeline.nowMs > untilMs) return world.mend(leader, node);
      const other = random.pick(others);
      if (world.isUp(other)) world.crash(other, 'kept');
      after(random.between(1, 20), () => {
        if (!world.isUp(other)) world.start(other);
      });
      after(random.between(400, 1_000), restartOne);
    };
    after(random.between(500, 1_000), restartOne);
  }),

  /** Replies reach the leader late, and then the followers receive nothing: late replies must not renew its lease. */
  lateReplies: repeatedly(2_500, ({ world, random, after }) => {
    const leader = leaderNode(world);
    if (leader === undefined) return;
    const node = world.host(leader.name).index;
    const others = world.names.filter((name) => name !== leader.name);
    const delayMs = random.between(300, 900);
    world.log.add(leader.name, `gets replies ${delayMs.toFixed(0)} ms late`);
    for (const other of others) world.network.change(world.host(other).index, node, { delayMs });
    after(random.between(200, 2_000), () => {
      for (const other of others) world.cut(leader.name, other);
      world.log.add(leader.name, 'reaches no follower');
    });
    after(random.between(3_000, 6_000), () => {
      for (const other of others) {
        world.mend(leader.name, other);
        world.network.restore(world.host(other).index, node, ['delayMs']);
      }
    });
  }),

  /** The links of the leader are cut in one direction or in both. */
  cutLeader: repeatedly(6_000, ({ world, random, after }) => {
    const node = leaderNode(world)?.name;
    if (node === undefined) return;
    const others = world.names.filter((name) => name !== node);
    const way = random.below(3);
    world.log.add(node, ['is cut off', 'reaches no other node', 'receives nothing'][way] as string);
    for (const other of others) {
      if (way !== 2) world.cut(node, other);
      if (way !== 1) world.cut(other, node);
    }
    after(random.between(200, 8_000), () => {
      for (const other of others) {
        if (way !== 2) world.mend(node, other);
        if (way !== 1) world.mend(other, node);
      }
    });
  }),

  isolateFollowers,
} as const satisfies Readonly<Record<string, Fault>>;
