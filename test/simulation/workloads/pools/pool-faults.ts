/**
 * Faults of pools: crashes during a move or a recovery, isolated owners, repeated crashes, drift and delay within the
 * limits of leases.
 */
import type { NodeId } from '../../../../src/base/ids.ts';
import type { Random } from '../../../../src/base/random.ts';
import { keyRanges } from '../../../../src/registry/cluster-keys.ts';
import { type ContainerRecord, readContainer } from '../../../../src/placement/state/container-records.ts';
import { crashNode, leaderNameOf, simulatedNodeOf } from '../../faults/leader-faults.ts';
import { type Fault, repeatedly, linkFault } from '../../faults/common-faults.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

/** A serving lease is safe up to a ratio of 1.375 between two clocks: 0.8 here and 1.1 there. */
const driftMax = 0.15;
/**
 * A leader lease ends 467 ms after its heartbeat round, by a clock that may run 1.15 times too fast; rounds come every
 * 100 ms.
 */
const mildDelayMsMax = 120;
const recordsMax = 10_000;

function nameOf(world: SimulatedWorld<unknown>, id: NodeId | undefined): string | undefined {
  return world.names.find((name) => simulatedNodeOf(world, name)?.identity?.id === id);
}

function isManager(world: SimulatedWorld<unknown>, name: string): boolean {
  return simulatedNodeOf(world, name)?.identity?.roles.includes('manager') === true;
}

/** The container records in the registry of the leader. */
function recordsOf(world: SimulatedWorld<unknown>): ContainerRecord[] {
  const leader = leaderNameOf(world);
  const manager = leader === undefined ? undefined : simulatedNodeOf(world, leader)?.core?.control?.manager;
  const entries = manager?.replica.keyspace.range(keyRanges.containers, recordsMax).entries ?? [];
  return entries.flatMap(({ value }) => readContainer(value) ?? []);
}

function anyMove(world: SimulatedWorld<unknown>, random: Random): ContainerRecord | undefined {
  const moving = recordsOf(world).filter(({ move }) => move !== undefined);
  return moving.length === 0 ? undefined : random.pick(moving);
}

export const poolFaults = {
  /** Crashes the owner, the target or the leader while a container moves. */
  killDuringMove: repeatedly(400, (context) => {
    const { world, random } = context;
    const record = anyMove(world, random);
    if (record === undefined || !random.chance(0.2)) return;
    const parties = [nameOf(world, record.owner?.node), nameOf(world, record.move?.to), leaderNameOf(world)];
    const node = parties[random.below(parties.length)];
    world.log.add(node ?? 'world', `crashes in step ${record.move?.step} of a move`);
    crashNode(context, node, 8_000);
  }),

  /** Crashes the leader or the new owner while a container is recovered. */
  killDuringRecovery: repeatedly(400, (context) => {
    const { world, random } = context;
    const opening = recordsOf(world).filter(({ phase, opening }) => phase === 'opening' && opening !== 'init');
    if (opening.length === 0 || !random.chance(0.2)) return;
    const node = random.chance(0.5) ? leaderNameOf(world) : nameOf(world, random.pick(opening).owner?.node);
    world.log.add(node ?? 'world', 'crashes during a recovery');
    crashNode(context, node, 6_000);
  }),

  /**
   * An owner is paused or partitioned until its containers can have new owners; then it resumes, and may reach replicas
   * before it learns of its successor.
   */
  isolateOwner: repeatedly(7_000, (context) => {
    const { world, random, after } = context;
    const owners = recordsOf(world).flatMap(({ owner }) => nameOf(world, owner?.node) ?? []);
    const node = owners.length === 0 ? undefined : random.pick(owners);
    if (node === undefined) return;
    const durationMs = random.between(4_500, 9_000);
    if (random.chance(0.5)) return world.pauseNode(node, durationMs);
    const others = world.names.filter((name) => name !== node);
    const managers = others.filter((name) => isManager(world, name));
    const workers = others.filter((name) => !managers.includes(name));
    after(durationMs, world.partition([[node], workers]));
    after(durationMs + random.between(0, 10_000), world.partition([[node], managers]));
  }),

  /**
   * An owner is partitioned from its replicas and serves without them, and crashes when the partition heals: only it
   * has the writes that it acknowledged meanwhile.
   */
  killIsolatedOwner: repeatedly(8_000, (context) => {
    const { world, random, after } = context;
    const records = recordsOf(world).filter(({ copies }) => copies.length > 1);
    const node = records.length === 0 ? undefined : nameOf(world, random.pick(records).owner?.node);
    if (node === undefined) return;
    const mend = world.partition([[node], world.names.filter((name) => name !== node && !isManager(world, name))]);
    after(random.between(2_000, 6_000), () => {
      mend();
      after(random.chance(0.5) ? random.between(0, 20) : 0, () => crashNode(context, node, 8_000));
    });
  }),

  /** A node crashes again during its restart or soon after. */
  killTwice: repeatedly(9_000, (context) => {
    const { world, random, after } = context;
    const node = random.pick(world.names);
    if (!world.isUp(node)) return;
    world.crash(node, 'kept');
    after(random.between(20, 3_000), () => {
      if (!world.isUp(node)) world.start(node);
      after(random.between(20, 4_000), () => crashNode(context, node, 4_000));
    });
  }),

  mildDelay: linkFault((random) => ({ delayMs: random.between(5, mildDelayMsMax) })),

  mildDrift: repeatedly(8_000, ({ world, random }) => {
    const node = random.pick(world.names);
    const rate = random.between(1 - driftMax, 1 + driftMax);
    world.log.add(node, `clock runs at ${rate.toFixed(3)} of its speed`);
    world.host(node).setRate(rate);
    world.host(node).setWallOffset(Math.round(random.between(-3_600_000, 3_600_000)));
  }),
} as const satisfies Readonly<Record<string, Fault>>;
