import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type Outcome, failure, success } from '../base/errors.ts';
import { type NodeId, nodeIdFrom } from '../base/ids.ts';
import type { Clock, Identity, Peer, StreamService } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import { decodeMessage, encodeMessage } from '../messages/catalogue.ts';
import { SimulatedWorld } from '../simulation/world/simulated-world.ts';
import { ServingLeaseHost } from './serving-lease-host.ts';
import { type ReceivedServingGrant, ServingLeaseRenewal, servingLeaseShares } from './serving-lease-renewal.ts';
import { registryEpoch } from '../base/registry-epoch.ts';

const epoch = registryEpoch('aaaaaaaaaaaaaaaa', 0);

const leaseMs = 5_000;
const regrantMs = leaseMs * 1.1;

/** A leader that grants while it may, and remembers its grants by its own clock. */
class Granter {
  readonly clock: Clock;
  behaviour: 'grant' | 'superseded' | 'notLeader' | 'nonsense' | 'elsewhere' = 'grant';
  term = 1;
  leaseMs = leaseMs;
  revokedRevision = 0;
  lastGrantMs = -Infinity;
  asked = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  grant(): Outcome<ReceivedServingGrant> {
    this.asked += 1;
    if (this.behaviour === 'superseded') return failure('FENCED');
    if (this.behaviour === 'notLeader') return failure('NOT_LEADER');
    this.lastGrantMs = this.clock.nowMs();
    return success({ leaseMs: this.leaseMs, term: this.term, revokedRevision: this.revokedRevision });
  }

  /** From now on another node may serve the containers of the worker. */
  get mayRegrant(): boolean {
    return this.clock.nowMs() >= this.lastGrantMs + regrantMs;
  }
}

type Program = { readonly lease?: ServingLeaseHost; readonly notified: boolean[] };

class LeaseHarness {
  leader: string | undefined = 'm1';
  readonly errors: unknown[] = [];
  /** Former leaders included: their grants still count. */
  readonly granters = new Map<string, Granter>();
  readonly world: SimulatedWorld<Program>;

  constructor(seed: string, names: readonly string[] = ['m1', 'm2', 'w']) {
    this.world = new SimulatedWorld<Program>({
      ...{ seed, names, failpoints: false },
      boot: (ports, { name, host, index, boots, random }) => {
        const roles = name === 'w' ? (['worker'] as const) : (['manager'] as const);
        const identity: Identity = { id: idOf(index), name, host, port: 7400, generation: boots, roles, dc: 'x' };
        const { streams } = ports.listen(identity, 'serving');
        if (name !== 'w') {
          const granter = new Granter(ports.clock);
          if (name !== this.leader) granter.behaviour = 'notLeader';
          this.granters.set(name, granter);
          streams.serve(serviceOf(granter));
          return { notified: [] };
        }
        const notified: boolean[] = [];
        const lease = new ServingLeaseHost(
          {
            ...{ clock: ports.clock, random, streams, self: identity, onHalt: (error) => this.errors.push(error) },
            leader: () => this.#peer(this.leader),
            managers: () => ['m1', 'm2'].flatMap((one) => (names.includes(one) ? (this.#peer(one) ?? []) : [])),
            onLeaderNotice: (notice) => {
              const [index] = notice;
              this.leader = this.world.names[index ?? 0];
              this.lease.leaderChanged();
            },
            grant: () => failure('INTERNAL', 'the worker does not lead'),
          },
          leaseMs,
        );
        lease.watch((holds) => notified.push(holds));
        lease.start();
        return { lease, notified };
      },
    });
    this.world.startAll();
  }

  get lease(): ServingLeaseHost {
    return this.world.program('w')?.lease as ServingLeaseHost;
  }

  get notified(): readonly boolean[] {
    return this.world.program('w')?.notified ?? [];
  }

  granter(name = 'm1'): Granter {
    return this.granters.get(name) as Granter;
  }

  /** From now on this leader grants. */
  leads(name: string): void {
    this.granter(name).behaviour = 'grant';
    this.granter(name).term = 2;
  }

  get asked(): number {
    return [...this.granters.values()].reduce((sum, { asked }) => sum + asked, 0);
  }

  /** Advances time; at no step may a leader reassign containers that are still served. */
  run(forMs: number, each: () => void = () => {}): void {
    const { timeline } = this.world;
    const untilMs = timeline.nowMs + forMs;
    while ((timeline.nextMs() ?? Infinity) <= untilMs) {
      timeline.step();
      this.#check();
      each();
    }
    timeline.runUntil(untilMs);
    this.#check();
    assert.deepEqual(this.errors, []);
  }

  #check(): void {
    if (!this.lease.holds()) return;
    const isGranted = [...this.granters.values()].some(({ mayRegrant }) => !mayRegrant);
    assert.ok(isGranted, `still serving at ${this.world.timeline.nowMs}`);
  }

  #peer(name: string | undefined): Peer | undefined {
    if (name === undefined) return undefined;
    const { address, index } = this.world.host(name);
    return { id: idOf(index), host: address, port: 7400 };
  }
}

function serviceOf(granter: Granter): StreamService {
  return {
    request: (_from, body, _remainingMs, reply) => {
      assert.equal(decodeMessage(body).kind, 'renewServingLease');
      if (granter.behaviour === 'nonsense') return reply(success(new Uint8Array([1, 2, 3, 4])));
      if (granter.behaviour === 'elsewhere')
        return reply(success(encodeMessage({ kind: 'servingLeaseRedirect', leaderHint: new Uint8Array([1]) })));
      const outcome = granter.grant();
      reply(outcome.ok ? success(encodeMessage({ kind: 'servingLeaseGranted', ...outcome.value })) : outcome);
    },
    notify: () => assert.fail('no notification is expected'),
    open: () => assert.fail('no stream is expected'),
  };
}

function idOf(index: number): NodeId {
  return nodeIdFrom(new Uint8Array(16).fill(index + 1));
}

describe('the serving lease', () => {
  test('is requested early enough for several retries before it ends', () => {
    const { stop, interval, timeout, retryMin } = servingLeaseShares;
    assert.ok(timeout < interval && retryMin < timeout && stop < 1);
    assert.ok(interval + (timeout + retryMin) + (timeout + 2 * retryMin) < stop);
  });

  test('starts with the first grant and is renewed every fifth of its length', () => {
    const harness = new LeaseHarness('begins');
    assert.equal(harness.lease.holds(), false);
    harness.run(100);
    assert.equal(harness.lease.holds(), true);
    harness.run(20_000, () => assert.equal(harness.lease.holds(), true));
    assert.ok(harness.granter().asked >= 20 && harness.granter().asked <= 22, String(harness.granter().asked));
    assert.deepEqual(harness.notified, [true]);
  });

  test('ends by itself when the leader is gone, counted from the last granted request', () => {
    const harness = new LeaseHarness('gone');
    harness.run(10_000);
    harness.world.crash('m1');
    const goneMs = harness.world.timeline.nowMs;
    let endMs = Infinity;
    harness.run(6_000, () => {
      if (!harness.lease.holds()) endMs = Math.min(endMs, harness.world.timeline.nowMs);
    });
    assert.ok(endMs - goneMs <= leaseMs * servingLeaseShares.stop);
    assert.ok(endMs - goneMs > leaseMs * (servingLeaseShares.stop - servingLeaseShares.interval) - 10);
    assert.deepEqual(harness.notified, [true, false]);
  });

  test('does not hold after a pause of the process, even before its timers have run', () => {
    const harness = new LeaseHarness('paused');
    harness.run(10_000);
    harness.world.pauseNode('w', 3 * leaseMs);
    harness.run(2.9 * leaseMs);
    assert.equal(harness.lease.holds(), false);
    assert.deepEqual(harness.notified, [true]);
    harness.run(leaseMs);
    // A process that was paused past the end reports the end.
    assert.deepEqual(harness.notified, [true, false, true]);
    assert.equal(harness.lease.holds(), true);
  });

  test('does not hold by a reply that took as long as the lease', () => {
    const harness = new LeaseHarness('late');
    harness.run(10_000);
    harness.world.pauseNode('m1', 4 * leaseMs);
    harness.run(4 * leaseMs);
    assert.equal(harness.lease.holds(), false);
    harness.run(leaseMs);
    assert.equal(harness.lease.holds(), true);
  });

  test('is requested from the next leader at once when that is known', () => {
    const harness = new LeaseHarness('next');
    harness.run(10_000);
    harness.world.crash('m1', 'lost');
    harness.leader = undefined;
    harness.run(1_500);
    harness.leader = 'm2';
    harness.leads('m2');
    harness.lease.leaderChanged();
    harness.run(100);
    assert.ok(harness.granter('m2').asked >= 1);
    harness.run(10_000, () => assert.equal(harness.lease.holds(), true));
    assert.deepEqual(harness.notified, [true]);
  });

  test('is requested from the leader that a former leader names', () => {
    const harness = new LeaseHarness('named');
    harness.run(10_000);
    harness.granter('m1').behaviour = 'elsewhere';
    harness.leads('m2');
    harness.run(20_000, () => assert.equal(harness.lease.holds(), true));
    assert.ok(harness.granter('m2').asked >= 15);
    assert.deepEqual(harness.notified, [true]);
  });

  test('is requested from the other managers when the leader is gone and no other is known', () => {
    const harness = new LeaseHarness('others');
    harness.run(10_000);
    harness.world.crash('m1', 'lost');
    harness.leads('m2');
    harness.run(20_000);
    assert.ok(harness.granter('m2').asked >= 2);
    assert.equal(harness.lease.holds(), true);
  });

  test('counts only the grants of the latest leader', () => {
    const harness = new LeaseHarness('latest');
    harness.run(5_000);
    harness.leads('m2');
    harness.granter('m2').leaseMs = 1_000;
    harness.leader = 'm2';
    harness.lease.leaderChanged();
    harness.run(50);
    harness.world.crash('m2', 'lost');
    harness.run(900);
    assert.equal(harness.lease.holds(), false);
    // The former leader replies again, and does not know yet that it has been replaced.
    harness.leader = 'm1';
    harness.run(10_000);
    assert.equal(harness.lease.holds(), false);
  });

  test('ends at once when a later generation of this node is known', () => {
    const harness = new LeaseHarness('superseded');
    harness.run(10_000);
    harness.granter().behaviour = 'superseded';
    harness.run(leaseMs * servingLeaseShares.interval + 50);
    assert.equal(harness.lease.holds(), false);
    assert.deepEqual(harness.notified, [true, false]);
  });

  test('does not hold before the table has applied the reassignments of the meantime', () => {
    const harness = new LeaseHarness('taken');
    harness.lease.tableApplied(7, epoch);
    harness.run(10_000);
    harness.world.cut('w', 'm1');
    harness.run(2 * leaseMs);
    harness.granter().revokedRevision = 12;
    harness.world.mend('w', 'm1');
    harness.run(2 * leaseMs);
    assert.equal(harness.lease.holds(), false);
    harness.lease.tableApplied(11, epoch);
    assert.equal(harness.lease.holds(), false);
    harness.lease.tableApplied(12, epoch);
    assert.equal(harness.lease.holds(), true);
    assert.deepEqual(harness.notified, [true, false, true]);
    harness.run(2 * leaseMs, () => assert.equal(harness.lease.holds(), true));
  });

  test('is requested again sooner after a refusal, with backoff', () => {
    for (const behaviour of ['notLeader', 'nonsense'] as const) {
      const harness = new LeaseHarness(behaviour);
      harness.run(10_000);
      const { asked } = harness;
      harness.granter().behaviour = behaviour;
      harness.run(60_000);
      assert.equal(harness.lease.holds(), false);
      const tries = harness.asked - asked;
      if (behaviour === 'notLeader') assert.ok(tries > 60 && tries < 150, String(tries));
      harness.granter().behaviour = 'grant';
      harness.run(2_200);
      assert.equal(harness.lease.holds(), true);
    }
  });

  test('is requested again soon after the first failure, however long it is', () => {
    const machine = new ServingLeaseRenewal(new Random('long'), 120_000);
    const [ask] = machine.step(0, { kind: 'start' });
    assert.ok(ask?.kind === 'request');
    const effects = machine.step(10, { kind: 'replied', id: ask.id, reply: { kind: 'failed' } });
    const next = effects.find((effect) => effect.kind === 'schedule');
    assert.ok(next !== undefined && next.atMs > 10 && next.atMs <= 260, JSON.stringify(effects));
  });

  test('is requested again soon while the table is behind', () => {
    const machine = new ServingLeaseRenewal(new Random('behind'), leaseMs);
    let [nowMs, effects] = [0, machine.step(0, { kind: 'start' })];
    for (let id = 1; id <= 20; id++) {
      assert.ok(effects.some((effect) => effect.kind === 'request' && effect.id === id));
      nowMs += 1;
      effects = machine.step(nowMs, { kind: 'replied', id, reply: { kind: 'behind' } });
      const again = effects.find((effect) => effect.kind === 'schedule');
      assert.ok(again !== undefined && again.atMs - nowMs <= 2 * servingLeaseShares.retryMin * leaseMs);
      nowMs = again.atMs;
      effects = machine.step(nowMs, { kind: 'expired', timer: again.timer });
    }
  });

  test('ends when it is stopped', () => {
    const harness = new LeaseHarness('stopped');
    harness.run(1_000);
    const { lease } = harness;
    lease.stop();
    assert.equal(lease.holds(), false);
    const { asked } = harness.granter();
    lease.leaderChanged();
    harness.run(5_000);
    assert.equal(harness.granter().asked, asked);
  });

  test('is granted without a message on the leader itself', () => {
    const harness = new LeaseHarness('self');
    const granter = harness.granter();
    const self = { id: idOf(0), generation: 3 };
    const seen: unknown[] = [];
    const lease = new ServingLeaseHost(
      {
        ...{
          clock: granter.clock,
          random: harness.world.random.fork('x'),
          self,
          onHalt: (error: unknown) => assert.fail(String(error)),
        },
        leader: () => ({ id: idOf(0), host: 'h', port: 1 }),
        managers: () => [],
        onLeaderNotice: () => assert.fail('it knows'),
        streams: { request: () => assert.fail('not over the network') },
        grant: (...asked) => {
          seen.push(asked);
          return granter.grant();
        },
      },
      leaseMs,
    );
    lease.start();
    assert.equal(lease.holds(), true);
    assert.deepEqual(seen, [[idOf(0), 3, { revision: 0, epoch: undefined }]]);
    harness.world.advance(20_000);
    assert.equal(lease.holds(), true);
    lease.stop();
  });

  test('ends before the leader may reassign, under any pauses, partitions and clock drift', () => {
    let lapses = 0;
    for (let seed = 0; seed < 60; seed++) {
      const harness = new LeaseHarness(`any ${seed}`, ['m1', 'w']);
      const random = harness.world.random.fork('faults');
      harness.world.host('w').setRate(random.pick([1, 1 / 1.2, 1.2]));
      for (let round = 0; round < 8; round++) {
        harness.run(random.between(0, 4_000));
        const fault = random.below(5);
        if (fault === 0) harness.world.pauseNode('w', random.between(0, 3 * leaseMs));
        else if (fault === 1) harness.world.pauseNode('m1', random.between(0, 3 * leaseMs));
        else if (fault === 2) harness.world.cut('w', 'm1');
        else if (fault === 3) harness.world.cut('m1', 'w');
        else harness.world.host('w').setWallOffset(3_600_000);
        harness.run(random.between(0, 2 * leaseMs));
        for (const [from, to] of [['w', 'm1'] as const, ['m1', 'w'] as const]) harness.world.mend(from, to);
      }
      harness.run(8 * leaseMs);
      assert.equal(harness.lease.holds(), true, `seed ${seed}`);
      lapses += harness.notified.filter((holds) => !holds).length;
    }
    assert.ok(lapses > 30, `only ${lapses} times anything ended`);
  });
});
