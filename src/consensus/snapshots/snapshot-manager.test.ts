import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { appliedEverywhere, untilEnded } from '../../../test/support/consensus/consensus-calls.ts';
import { ConsensusTestCluster, voterOf } from '../../../test/support/consensus/consensus-cluster.ts';
import type { StoreContent } from '../../simulation/engine/store-content.ts';
import { type ConsensusOptions, defaultConsensusOptions } from '../state/options.ts';
import { storageKeys } from '../state/storage-format.ts';

const { snapshots } = storageKeys('g');

/** The number of parts on disk, by snapshot. */
function partsOn(disk: StoreContent): ReadonlyMap<number, number> {
  const outcome = disk.read({ from: snapshots, to: `${snapshots}~`, limit: 100_000 });
  assert.ok(outcome.ok);
  const counts = new Map<number, number>();
  for (const { key } of outcome.value) {
    const number = Number(key.slice(snapshots.length).split('/')[0]);
    counts.set(number, (counts.get(number) ?? 0) + 1);
  }
  return counts;
}

type Scene = { readonly world: ConsensusTestCluster; readonly happened: string[] };

/** Three voters with options of their own; the last one has the lowest election priority. */
function scene(common: Partial<ConsensusOptions>, last: Partial<ConsensusOptions> = {}): Scene {
  const happened: string[] = [];
  const world = new ConsensusTestCluster({ onEvent: (at, text) => happened.push(`${at} ${text}`) });
  for (const key of ['n1', 'n2', 'n3']) {
    world.options = { ...defaultConsensusOptions, ...common, ...(key === 'n3' && { priority: 10, ...last }) };
    world.start(key);
  }
  world.run(4);
  const members = ['n1', 'n2', 'n3'].map(voterOf);
  for (const key of ['n1', 'n2', 'n3']) world.voter(key).host.bootstrap(members, (outcome) => assert.ok(outcome.ok));
  world.untilLeader();
  return { world, happened };
}

function propose(world: ConsensusTestCluster, from: number, to: number): void {
  const leader = world.leader() as string;
  for (let i = from; i < to; i++) world.propose(leader, `item ${i}`);
}

function untilApplied(world: ConsensusTestCluster, key: string, count: number): void {
  world.until(`${key} has ${count}`, () => world.voter(key).stateMachine.items.length === count);
}

const items = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `item ${i}`);

describe('a snapshot', () => {
  test('covers the entry at which it started, although more are applied before its end', () => {
    const { world, happened } = scene({ snapshotEntriesMax: 200, snapshotPartBytes: 8, tailEntriesMax: 0 });
    propose(world, 0, 200);
    world.until('it has begun', () => [...partsOn(world.voter('n3').disk).values()].some((count) => count > 2));
    for (let i = 200; i < 230; i += 5) {
      propose(world, i, i + 5);
      untilApplied(world, 'n3', i + 5);
    }
    assert.ok(!happened.some((text) => text.startsWith('n3 snapshot.taken')), 'it takes longer than that');
    world.until('it is taken', () => happened.some((text) => text.startsWith('n3 snapshot.taken')));
    assert.match(happened.find((text) => text.startsWith('n3 snapshot.taken')) ?? '', /log up to 201\)/);
    world.run(20);
    for (const key of world.keys) world.kill(key);
    for (const key of world.keys) world.start(key);
    world.untilLeader();
    world.until('all is there, and once', () => appliedEverywhere(world, items(230)), 2_000);
  });

  test('is ignored and cleaned up after a crash before its end', () => {
    for (const crashAfterMs of [0, 1, 2, 5, 11, 20, 30, 31, 32, 33, 40]) {
      const { world, happened } = scene({ snapshotEntriesMax: 30, snapshotPartBytes: 16, tailEntriesMax: 0 });
      propose(world, 0, 40);
      world.until('it has begun', () => partsOn(world.voter('n3').disk).size > 0);
      world.run(crashAfterMs);
      world.kill('n3');
      const isTaken = happened.some((text) => text.startsWith('n3 snapshot.taken'));
      if (crashAfterMs <= 20) assert.equal(isTaken, false, 'the crash is in its middle');
      world.start('n3');
      propose(world, 40, 45);
      world.until('all is there', () => appliedEverywhere(world, items(45)), 2_000);
      world.run(500);
      assert.equal(partsOn(world.voter('n3').disk).size, 1, `one snapshot is left, ${crashAfterMs} ms`);
      world.kill('n3');
      world.start('n3');
      world.until('and again', () => appliedEverywhere(world, items(45)), 2_000);
    }
  });

  test('is cancelled when a newer snapshot comes from the leader', () => {
    const { world, happened } = scene({ snapshotEntriesMax: 400, tailEntriesMax: 0 }, { snapshotPartBytes: 8 });
    propose(world, 0, 400);
    world.until('it has begun', () => partsOn(world.voter('n3').disk).size > 0);
    world.isolate('n3');
    propose(world, 400, 900);
    untilApplied(world, world.leader() as string, 900);
    world.run(10);
    world.heal();
    world.until('the state came', () => happened.some((text) => text.startsWith('n3 snapshot.installed')), 3_000);
    world.until('all is there', () => appliedEverywhere(world, items(900)), 2_000);
    world.run(1_000);
    assert.ok(!happened.some((text) => text.startsWith('n3 snapshot.taken')), happened.join('\n'));
    assert.equal(partsOn(world.voter('n3').disk).size, 1, 'what was written of its own is deleted');
    propose(world, 900, 1_400);
    world.until('it takes the next one', () => happened.some((text) => text.startsWith('n3 snapshot.taken')));
    world.kill('n3');
    world.start('n3');
    world.until('all is there again', () => appliedEverywhere(world, items(1_400)), 2_000);
  });

  test('is not taken again before the log has grown by its size, within a bound', () => {
    const { world, happened } = scene({ snapshotEntriesMax: 5, tailEntriesMax: 0 });
    const leader = world.leader() as string;
    const taken = (): number => happened.filter((text) => text.startsWith(`${leader} snapshot.taken`)).length;
    const add = (text: string): void => {
      assert.equal(untilEnded(world, world.propose(leader, text)), 'ok');
      world.run(10);
    };
    add('x'.repeat(100_000));
    for (let i = 0; i < 3; i++) add('small');
    assert.equal(taken(), 1);
    for (let i = 0; i < 19; i++) add('small');
    assert.equal(taken(), 1, 'its state is large, and what was added small');
    add('small');
    assert.equal(taken(), 2, 'the log has a bound');
    for (let i = 0; i < 5; i++) add('x'.repeat(21_000));
    assert.equal(taken(), 3, 'the log has grown by as much');
  });
});

describe('applying entries in slices', () => {
  test('keeps their order, also with requests in between', () => {
    const { world } = scene({});
    const leader = world.voter(world.leader() as string);
    const count = 6_000;
    let barriers = 0;
    for (let i = 0; i < count; i++) {
      leader.host.propose(new TextEncoder().encode(`item ${i}`), 5_000, (outcome) => {
        assert.ok(outcome.ok);
        leader.host.readBarrier(5_000, () => (barriers += 1));
      });
    }
    world.until('all are applied', () => leader.stateMachine.items.length === count && barriers === count);
    assert.deepEqual(leader.stateMachine.items, items(count));
  });
});
