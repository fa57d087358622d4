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
  readonly side: FakeRegistry;
  readonly leadership: LeaseLeadership;
  readonly log: string[];
};

/** Candidates of one group, each with a line of its own to the registry, and who led when. */
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
    const side = this.registry.connect();
    const log: string[] = [];
    const leadership = createLeaseLeadership({ registry: side, clock: this.clock, key, identity: id, ttlMs });
    const note = (text: string): void => void log.push(`${Math.round(this.timeline.nowMs)} ${text}`);
    leadership.watch({
      elected: (fence) => {
        note('became');
        this.fences.push(fence);
      },
      lost: (reason) => note(`lost: ${reason}`),
    });
    const member = { id, side, leadership, log };
    this.members.push(member);
    return member;
  }

  /** Lets time pass, and at every step nobody but one leads, under the highest fence there was. */
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

describe('leadership by a lease', () => {
  test('the first one leads, all others know who and under which fence', () => {
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

  test('one that is cut off stops after 0.8 of its time, before the next begins', () => {
    const { world, members } = group(2);
    const [a, b] = members as [Member, Member];
    const cutMs = world.timeline.nowMs;
    a.side.interrupt();
    world.run(10_000);
    const lostMs = Number(a.log[1]?.split(' ')[0]);
    const becameMs = Number(b.log[0]?.split(' ')[0]);
    assert.match(a.log[1] ?? '', /lost: the lease was not renewed in time/);
    assert.ok(lostMs - cutMs <= ttlMs * 0.8 && lostMs - cutMs >= ttlMs * (0.8 - 1 / 3) - 1, a.log.join());
    assert.ok(becameMs > lostMs && becameMs - lostMs < ttlMs * 0.5, b.log.join());
    assert.equal(a.leadership.view().leader, undefined);
    a.side.resume();
    world.run(2_000);
    assert.equal(a.leadership.view().leader, b.id);
    assert.equal(a.log.length, 2);
  });

  test('answers that come after the safe time do not bring it back', () => {
    const { world, members } = group(1);
    const [a] = members as [Member];
    a.side.interrupt('DEADLINE', { happens: true });
    world.run(799);
    a.side.resume();
    world.run(20_000);
    // Its renewals arrived, their answers did not: it stopped, waited for its own lease to end, and came back.
    assert.deepEqual(
      a.log.map((line) => line.replace(/^\d+ /, '')),
      ['became', 'lost: the lease was not renewed in time', 'became'],
    );
  });

  test('a lease or key that somebody takes away is lost at once', () => {
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

  test('resigning hands over at once, and the one who resigned lets others go first', () => {
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

  test('a claim whose outcome is unknown is taken back', () => {
    const world = new Group();
    const a = world.join();
    const b = world.join();
    a.side.interrupt('DEADLINE', { happens: true });
    b.side.interrupt();
    world.run(3_000);
    assert.equal(world.fences.length, 0);
    a.side.resume();
    b.side.resume();
    world.run(10_000);
    assert.equal(world.members.filter(({ leadership }) => leadership.isLeading()).length, 1);
  });

  test('whatever is cut and healed, at most one leads, and one does in the end (200 seeds)', () => {
    let changes = 0;
    for (let seed = 0; seed < 200; seed++) {
      const random = new Random(`leadership ${seed}`);
      const { world, members } = group(3);
      for (let round = 0; round < 25; round++) {
        const { side, leadership } = members[random.below(3)]!;
        const fault = random.below(6);
        if (fault === 0) side.interrupt();
        else if (fault === 1) side.interrupt('DEADLINE', { happens: true });
        else if (fault === 2) side.interrupt('NO_QUORUM');
        else if (fault === 3) leadership.resign(() => {});
        else side.resume();
        world.run(random.below(900));
      }
      for (const { side } of members) side.resume();
      world.run(5_000 + ttlMs * 3);
      assert.equal(members.filter(({ leadership }) => leadership.isLeading()).length, 1, `seed ${seed}`);
      assert.equal(new Set(members.map(({ leadership }) => leadership.view().fence)).size, 1, `seed ${seed}`);
      changes += world.fences.length;
      world.registry.close();
    }
    assert.ok(changes > 600, `only ${changes} changes of leader`);
  });
});
