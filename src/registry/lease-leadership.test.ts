import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import type { Fence } from '../base/fence.ts';
import { type NodeId, nodeIdFrom } from '../base/ids.ts';
import type { Clock } from '../base/ports.ts';
import { type LeaseId, onlyKey } from '../base/registry.ts';
import { Random } from '../base/random.ts';
import { Timeline } from '../simulation/engine/timeline.ts';
import { type LeaseLeadership, createLeaseLeadership } from './lease-leadership.ts';
import { type FakeRegistry, fakeRegistry } from '../../test/fakes/fake-registry.ts';

const key = '/cluster/leader';
const ttlMs = 1_000;

type Member = {
  readonly id: NodeId;
  readonly connection: FakeRegistry;
  readonly leadership: LeaseLeadership;
  readonly log: string[];
};

/** Candidates of one group, each with its own connection to the registry, and a log of each leadership. */
class Group {
  readonly timeline = new Timeline();
  readonly clock: Clock = {
    nowMs: () => this.timeline.nowMs,
    wallMs: () => this.timeline.nowMs,
    schedule: (delayMs, run) => this.timeline.after(delayMs, run),
  };
  readonly registry = fakeRegistry({ clock: this.clock });
  readonly members: Member[] = [];
  readonly fences: Fence[] = [];

  join(): Member {
    const id = nodeIdFrom(new Uint8Array(16).fill(this.members.length + 1));
    const connection = this.registry.connect();
    const log: string[] = [];
    const leadership = createLeaseLeadership({ registry: connection, clock: this.clock, key, identity: id, ttlMs });
    const trace = (text: string): void => void log.push(`${Math.round(this.timeline.nowMs)} ${text}`);
    leadership.watch({
      elected: (fence) => {
        trace('elected');
        this.fences.push(fence);
      },
      lost: (reason) => trace(`lost: ${reason}`),
    });
    const member = { id, connection, leadership, log };
    this.members.push(member);
    return member;
  }

  /** Lets time pass, and checks at every step that at most one member leads, under the highest fence. */
  run(forMs: number): void {
    const untilMs = this.timeline.nowMs + forMs;
    for (let next = this.timeline.nextMs(); next !== undefined && next <= untilMs; next = this.timeline.nextMs()) {
      this.timeline.step();
      const leading = this.members.filter(({ leadership }) => leadership.isLeading());
      assert.ok(leading.length <= 1, `${leading.length} lead at ${this.timeline.nowMs}`);
      for (const { leadership } of leading) assert.equal(leadership.view().fence, this.fences.at(-1));
    }
    this.timeline.runUntil(untilMs);
    for (let i = 1; i < this.fences.length; i++) assert.ok(this.fences[i]! > this.fences[i - 1]!);
  }
}

function group(count: number): { world: Group; members: Member[] } {
  const world = new Group();
  const members = Array.from({ length: count }, () => {
    const member = world.join();
    world.run(1);
    return member;
  });
  world.run(100);
  return { world, members };
}

describe('lease leadership', () => {
  test('elects the first candidate, and shows all others leader and fence', () => {
    const { world, members } = group(3);
    const [a, b, c] = members as [Member, Member, Member];
    assert.deepEqual(
      [a.leadership.isLeading(), b.leadership.isLeading(), c.leadership.isLeading()],
      [true, false, false],
    );
    for (const { leadership } of members) assert.deepEqual(leadership.view(), a.leadership.view());
    assert.equal(a.leadership.view().leader, a.id);
    assert.equal(a.leadership.view().fence, BigInt(a.leadership.view().term));
    world.run(60_000);
    assert.deepEqual([a.log.length, b.log.length, a.leadership.isLeading()], [1, 0, true]);
  });

  test('ends for an isolated leader after 0.8 of its lease, before the next leader is elected', () => {
    const { world, members } = group(2);
    const [a, b] = members as [Member, Member];
    const cutMs = world.timeline.nowMs;
    a.connection.interrupt();
    world.run(10_000);
    const lostMs = Number(a.log[1]?.split(' ')[0]);
    const electedMs = Number(b.log[0]?.split(' ')[0]);
    assert.match(a.log[1] ?? '', /lost: the lease was not renewed in time/);
    assert.ok(lostMs - cutMs <= ttlMs * 0.8 && lostMs - cutMs >= ttlMs * (0.8 - 1 / 3) - 1, a.log.join());
    assert.ok(electedMs > lostMs && electedMs - lostMs < ttlMs * 0.5, b.log.join());
    assert.equal(a.leadership.view().leader, undefined);
    a.connection.resume();
    world.run(2_000);
    assert.equal(a.leadership.view().leader, b.id);
    assert.equal(a.log.length, 2);
  });

  test('is not restored by replies that arrive after the safe time', () => {
    const { world, members } = group(1);
    const [a] = members as [Member];
    a.connection.interrupt('DEADLINE', { takesEffect: true });
    world.run(799);
    a.connection.resume();
    world.run(20_000);
    // Its renewals arrived, their replies did not: it stopped, waited for its own lease to expire, and was elected
    // again.
    assert.deepEqual(
      a.log.map((line) => line.replace(/^\d+ /, '')),
      ['elected', 'lost: the lease was not renewed in time', 'elected'],
    );
  });

  test('ends at once when the lease is revoked or the key deleted', () => {
    const { world, members } = group(2);
    const [a, b] = members as [Member, Member];
    const entry = world.registry.keyspace.range(onlyKey(key), 1).entries[0]!;
    const beforeMs = world.timeline.nowMs;
    world.registry.revoke(entry.lease as LeaseId, {}, () => {});
    world.run(50);
    assert.equal(a.log[1], `${Math.round(beforeMs)} lost: the key was taken away`);
    assert.equal(world.fences.length, 2);
    const removal = { compare: [], then: [{ kind: 'delete', range: onlyKey(key) } as const], otherwise: [] };
    world.registry.transact(removal, {}, () => {});
    world.run(50);
    assert.equal(world.fences.length, 3);
    assert.equal(a.log.length + b.log.length, 5);
  });

  test('passes on at once when the leader resigns, which then does not campaign for one TTL', () => {
    const { world, members } = group(2);
    const [a, b] = members as [Member, Member];
    const ends: boolean[] = [];
    a.leadership.resign((outcome) => ends.push(outcome.ok));
    assert.equal(a.leadership.isLeading(), false);
    world.run(20);
    assert.deepEqual([ends, b.leadership.isLeading()], [[true], true]);
    b.leadership.stop((outcome) => ends.push(outcome.ok));
    world.run(ttlMs + 50);
    assert.deepEqual([ends, a.leadership.isLeading()], [[true, true], true]);
    a.leadership.stop(() => {});
    world.run(1);
    assert.equal(world.registry.keyspace.leaseCount, 0);
    world.run(5_000);
    assert.equal(world.timeline.pending, 0);
    assert.deepEqual([b.leadership.view().leader, world.fences.length], [undefined, 3]);
  });

  test('revokes the lease of a campaign whose outcome is unknown', () => {
    const world = new Group();
    const a = world.join();
    const b = world.join();
    a.connection.interrupt('DEADLINE', { takesEffect: true });
    b.connection.interrupt();
    world.run(3_000);
    assert.equal(world.fences.length, 0);
    a.connection.resume();
    b.connection.resume();
    world.run(10_000);
    assert.equal(world.members.filter(({ leadership }) => leadership.isLeading()).length, 1);
  });

  test('has at most one leader under random faults, and one after they heal (200 seeds)', () => {
    let changes = 0;
    for (let seed = 0; seed < 200; seed++) {
      const random = new Random(`leadership ${seed}`);
      const { world, members } = group(3);
      for (let round = 0; round < 25; round++) {
        const { connection, leadership } = members[random.below(3)]!;
        const fault = random.below(6);
        if (fault === 0) connection.interrupt();
        else if (fault === 1) connection.interrupt('DEADLINE', { takesEffect: true });
        else if (fault === 2) connection.interrupt('NO_QUORUM');
        else if (fault === 3) leadership.resign(() => {});
        else connection.resume();
        world.run(random.below(900));
      }
      for (const { connection } of members) connection.resume();
      world.run(5_000 + ttlMs * 3);
      assert.equal(members.filter(({ leadership }) => leadership.isLeading()).length, 1, `seed ${seed}`);
      assert.equal(new Set(members.map(({ leadership }) => leadership.view().fence)).size, 1, `seed ${seed}`);
      changes += world.fences.length;
      world.registry.close();
    }
    assert.ok(changes > 600, `only ${changes} changes of leader`);
  });
});
