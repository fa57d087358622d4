/** Faults only voters know: member changes, transfers, unhealthy voters, per-message faults, crashes around a vote. */
import type { GroupChange, GroupMember } from '../../../../src/consensus/state/state-machine.ts';
import { type Fault, type FaultContext, repeatedly } from '../../faults/common-faults.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { type GroupNode, nodeIdAt, type MessageFaults } from './group-node.ts';

const changeMs = 4_000;
const votersMin = 3;
/** How long something goes on by itself after the fault has last renewed it. */
const renewedMs = 400;

function groupNodeOf(world: SimulatedWorld<unknown>, name: string): GroupNode | undefined {
  return world.program(name) as GroupNode | undefined;
}

/** As the node itself would do it: later if it stands still, never if it is gone. */
function on(world: SimulatedWorld<unknown>, name: string, run: (seat: GroupNode) => void): void {
  world.host(name).process?.run(() => {
    const seat = groupNodeOf(world, name);
    if (seat !== undefined) run(seat);
  });
}

function leaderNode(world: SimulatedWorld<unknown>): GroupNode | undefined {
  const seats = world.names.map((name) => groupNodeOf(world, name));
  return seats.find((seat) => seat?.handle?.leadership.isLeading() === true);
}

function nameOf(world: SimulatedWorld<unknown>, id: string): string {
  return world.names.find((name) => groupNodeOf(world, name)?.id === id) ?? id;
}

/**
 * Adds who is outside, promotes who has caught up, removes members (also the leader, also dead ones) down to three
 * voters. Sometimes two at once: the second has to be refused.
 */
function changeMembers({ world, random }: FaultContext): void {
  const seat = leaderNode(world);
  for (let count = seat === undefined ? 0 : 1 + random.below(2); count > 0; count--) {
    on(world, seat?.name ?? '', (asked) => {
      const { name, handle, everybody } = asked;
      if (handle === undefined) return;
      const change = random.pick(changesOf(handle.view().members, everybody));
      const text = `${change.kind} ${change.kind === 'add' ? change.member.name : nameOf(world, change.id)}`;
      world.log.add(name, `is to ${text}`);
      asked.change(change, changeMs, (ok) => world.log.add(name, `${ok ? 'has done' : 'cannot'} ${text}`));
    });
  }
}

function changesOf(members: readonly GroupMember[], everybody: readonly GroupMember[]): readonly GroupChange[] {
  const outside = everybody.filter(({ id }) => !members.some((member) => member.id === id));
  const syncing = members.filter(({ standing }) => standing === 'syncing');
  const removable = members.length - syncing.length > votersMin ? members : syncing;
  const changes: readonly GroupChange[] = [
    ...outside.map((member) => ({ kind: 'add', member }) as const),
    ...syncing.flatMap(({ id }) => [{ kind: 'promote', id } as const, { kind: 'promote', id } as const]),
    ...removable.map(({ id }) => ({ kind: 'remove', id }) as const),
  ];
  return changes.length > 0 ? changes : everybody.slice(0, 1).map((member) => ({ kind: 'add', member }));
}

function faultyMessages({ world, random, after }: FaultContext): void {
  const node = random.pick(world.names);
  const mischief: Omit<MessageFaults, 'untilMs'> = {
    lossRatio: random.chance(0.5) ? random.between(0, 0.5) : 0,
    doubleRatio: random.between(0, 0.5),
    holdRatio: random.between(0, 0.5),
    holdMs: random.between(1, 600),
  };
  world.log.add(node, `hears ${JSON.stringify(mischief)}`);
  const renew = (untilMs: number): void => {
    const { nowMs } = world.timeline;
    const seat = groupNodeOf(world, node);
    if (seat !== undefined) seat.mischief = { ...mischief, untilMs: nowMs + renewedMs };
    if (nowMs < untilMs) after(renewedMs / 2, () => renew(untilMs));
  };
  renew(world.timeline.nowMs + random.between(500, 8_000));
}

/** Whoever gives a vote may lose its power before, while or after the vote gets out, and is back at once. */
function crashAtVote(nemesis: FaultContext): void {
  const { world, random, intensity, after } = nemesis;
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
      const seat = groupNodeOf(world, name);
      if (seat !== undefined) seat.onVote = () => strike(name);
    }
    after(20, arm);
  };
  arm();
}

/** When the one who was parted last is surely back among the others. */
const calmAgainMs = 3_000;

/** Takes one at a time who does not lead away from all others: by the network, by a kill, by a stall. */
function partFollowers(nemesis: FaultContext): void {
  let freeMs = 0;
  repeatedly(2_000, ({ world, random }) => {
    const leader = leaderNode(world);
    if (leader === undefined || world.timeline.nowMs < freeMs) return;
    const node = random.pick(world.names.filter((name) => name !== leader.name));
    const forMs = random.between(200, 8_000);
    freeMs = world.timeline.nowMs + forMs + calmAgainMs;
    isolate(nemesis, node, forMs);
  })(nemesis);
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
    const seat = leaderNode(world);
    if (seat?.handle === undefined) return;
    const { members } = seat.handle.view();
    const to = random.chance(0.3) ? undefined : random.pick(members).id;
    const timeoutMs = random.between(200, 3_000);
    world.log.add(seat.name, `is to hand over to ${to === undefined ? 'anybody' : nameOf(world, to)}`);
    on(world, seat.name, ({ handle }) => handle?.transfer(to, timeoutMs, () => undefined));
  }),

  unwell: repeatedly(4_000, ({ world, random }) => {
    const node = random.pick(world.names);
    const health = random.between(0, 8);
    world.log.add(node, `feels ${health.toFixed(1)}`);
    on(world, node, (seat) => seat.setHealth(health));
    world.timeline.after(random.between(200, 3_000), () => on(world, node, (seat) => seat.setHealth(0)));
  }),

  /** A node hears that the process of another is gone. It is: others are never said to be. */
  obituary: repeatedly(1_500, ({ world, random }) => {
    const [node, gone] = [random.pick(world.names), random.pick(world.names)];
    const last = world.bootCount(gone) - (world.isUp(gone) ? 1 : 0);
    if (last === 0) return;
    world.log.add(node, `hears that life ${last} of ${gone} is over`);
    on(world, node, (seat) => seat.reportProcessGone(nodeIdAt(world.host(gone).index), last));
  }),

  unrulyMessages: repeatedly(4_000, faultyMessages),
  crashAtVote,

  /** Restarts the present leader; elections are where mistakes live. When all hear of it at once, many stand at once. */
  crashLeader: repeatedly(4_000, ({ world, random, after }) => {
    const node = leaderNode(world)?.name;
    if (node === undefined) return;
    const [life, isTold] = [world.bootCount(node), random.chance(0.6)];
    world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
    for (const other of isTold ? world.names : []) {
      after(random.between(0, 30), () =>
        on(world, other, (seat) => seat.reportProcessGone(nodeIdAt(world.host(node).index), life)),
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

  /** Back before anybody could have noticed. */
  quickRestart: repeatedly(500, ({ world, random, after }) => {
    const node = random.pick(world.names);
    if (!world.isUp(node)) return;
    world.crash(node, random.chance(0.5) ? 'lost' : 'kept');
    after(random.between(1, 100), () => {
      if (!world.isUp(node)) world.start(node);
    });
  }),

  /** One voter hears nothing of the leader, but all others do: it will want to be elected. */
  deafFollower: repeatedly(3_000, ({ world, random, after }) => {
    const leader = leaderNode(world)?.name;
    if (leader === undefined) return;
    const node = random.pick(world.names.filter((name) => name !== leader));
    world.log.add(node, `no longer hears ${leader}, who leads`);
    world.cut(leader, node);
    after(random.between(500, 5_000), () => world.mend(leader, node));
  }),

  /** One voter hears nothing of the leader, and the others restart again and again while it wants to be elected. */
  forgetfulVoters: repeatedly(1_500, ({ world, random, after }) => {
    const leader = leaderNode(world)?.name;
    if (leader === undefined) return;
    const [node, ...others] = random.shuffled(world.names.filter((name) => name !== leader));
    if (node === undefined || others.length === 0) return;
    const untilMs = world.timeline.nowMs + random.between(2_000, 8_000);
    world.log.add(node, `no longer hears ${leader}, and the others restart`);
    world.cut(leader, node);
    const again = (): void => {
      if (world.timeline.nowMs > untilMs) return world.mend(leader, node);
      const other = random.pick(others);
      if (world.isUp(other)) world.crash(other, 'kept');
      after(random.between(1, 20), () => {
        if (!world.isUp(other)) world.start(other);
      });
      after(random.between(400, 1_000), again);
    };
    after(random.between(500, 1_000), again);
  }),

  /** All answer the leader late, and then no longer hear it: it must not take late answers for fresh ones. */
  lateAnswers: repeatedly(2_500, ({ world, random, after }) => {
    const leader = leaderNode(world);
    if (leader === undefined) return;
    const node = world.host(leader.name).index;
    const others = world.names.filter((name) => name !== leader.name);
    const delayMs = random.between(300, 900);
    world.log.add(leader.name, `gets answers ${delayMs.toFixed(0)} ms late`);
    for (const other of others) world.network.change(world.host(other).index, node, { delayMs });
    after(random.between(200, 2_000), () => {
      for (const other of others) world.cut(leader.name, other);
      world.log.add(leader.name, 'is no longer heard');
    });
    after(random.between(3_000, 6_000), () => {
      for (const other of others) {
        world.mend(leader.name, other);
        world.network.restore(world.host(other).index, node, ['delayMs']);
      }
    });
  }),

  /** The leader hears nobody, or nobody hears it, or neither. */
  cutLeader: repeatedly(6_000, ({ world, random, after }) => {
    const node = leaderNode(world)?.name;
    if (node === undefined) return;
    const others = world.names.filter((name) => name !== node);
    const way = random.below(3);
    world.log.add(node, ['leads on, cut off', 'leads on, unheard', 'leads on, deaf'][way] as string);
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

  partFollowers,
} as const satisfies Readonly<Record<string, Fault>>;
