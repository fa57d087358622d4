/** Three nodes with disks: what is acknowledged is where it should be, in small stories. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import { ReplicationTestCluster, writesOf } from '../../../test/support/containers/replication-cluster.ts';

function running(seed: string, names: readonly string[] = ['a', 'b'], settings = {}): ReplicationTestCluster {
  const world = new ReplicationTestCluster(seed, settings);
  for (const name of ['a', 'b', 'c']) world.start(name);
  world.create(0, names);
  world.until('it is open', () => world.node('a').opened.has(0));
  world.until('its copies are in sync', () => world.inSyncNames() === names.join(''));
  return world;
}

describe('commits', () => {
  test('are on every disk in sync when they end, in order', () => {
    const world = running('order');
    const ended: number[] = [];
    const log = world.node('a').opened.get(0)?.log;
    for (let i = 0; i < 50; i++) {
      log?.commit([{ key: `k${i}`, value: new Uint8Array([i]) }], (outcome) => {
        assert.ok(outcome.ok);
        assert.ok(world.state('a').has(`k${i}`) && world.state('b').has(`k${i}`));
        ended.push(i);
      });
    }
    world.until('all end', () => ended.length === 50);
    assert.deepEqual(
      ended,
      Array.from({ length: 50 }, (_, i) => i),
    );
    assert.deepEqual(world.state('b'), world.state('a'));
    assert.equal(world.rows('c'), 0);
  });

  test('that wait together share writes and requests', () => {
    const world = running('together');
    world.requests.length = 0;
    let ended = 0;
    for (let i = 0; i < 100; i++) {
      world
        .node('a')
        .opened.get(0)
        ?.log.commit([{ key: `k${i}`, value: new Uint8Array(10) }], () => (ended += 1));
    }
    world.until('all end', () => ended === 100);
    assert.equal(world.requests.length, 1);
  });

  test('that end together are answered in turns, and those who hear of it can go on meanwhile', () => {
    const world = running('turns');
    const log = world.node('a').opened.get(0)?.log;
    let ended = 0;
    for (let i = 0; i < 600; i++) log?.commit([{ key: `k${i}`, value: new Uint8Array(10) }], () => (ended += 1));
    const counts: number[] = [];
    world.until('all end', () => {
      if (ended !== counts.at(-1)) counts.push(ended);
      return ended === 600;
    });
    assert.deepEqual(counts, [0, 256, 512, 600]);
  });

  test('go on without a copy that is gone, but not before the record says so', () => {
    const world = running('without');
    world.kill('b');
    let isAcknowledged = false;
    world
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => {
        isAcknowledged = true;
        assert.equal(world.inSyncNames(), 'a');
      });
    world.run(900);
    assert.equal(isAcknowledged, false, 'it waits for the copy first');
    world.until('it is acknowledged', () => isAcknowledged, 1_000);
    assert.deepEqual(
      world.node('a').events.map(({ kind }) => kind),
      ['inSync', 'inSync'],
    );
  });

  test('wait no longer for a copy that is known to be dead', () => {
    for (const how of ['told', 'asked']) {
      const world = running(`dead ${how}`);
      world.kill('b');
      if (how === 'asked') world.knowsTheDead = true;
      let isAcknowledged = false;
      world
        .node('a')
        .opened.get(0)
        ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => (isAcknowledged = true));
      if (how === 'told') world.node('a').host.peerLost(world.node('b').id);
      world.until('it is acknowledged', () => isAcknowledged, 300);
    }
  });

  test('have a copy again as soon as it is known to be back', () => {
    const world = running('back');
    world.kill('b');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    // Long enough for the pauses between two tries to be long.
    world.run(20_000);
    world.start('b');
    world.node('a').host.peerReturned(world.node('b').id);
    world.until('it is in sync', () => world.inSyncNames() === 'ab', 200);
  });

  test('wait while the record cannot be changed', () => {
    const world = running('no quorum');
    world.kill('b');
    world.node('a').side.interrupt('NO_QUORUM');
    let isAcknowledged = false;
    world
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => (isAcknowledged = true));
    world.run(30_000);
    assert.equal(isAcknowledged, false);
    world.node('a').side.resume();
    world.until('it is acknowledged', () => isAcknowledged, 3_000);
    assert.equal(world.inSyncNames(), 'a');
  });

  test('behind one that is refused are refused with it, in order', () => {
    const world = running('behind');
    const ends: string[] = [];
    const log = world.node('a').opened.get(0)?.log;
    for (const [key, size] of [
      ['x', 10],
      ['y', 11_000_000],
      ['z', 10],
    ] as const) {
      log?.commit([{ key, value: new Uint8Array(size) }], (outcome) =>
        ends.push(outcome.ok ? key : outcome.error.code),
      );
    }
    world.until('all end', () => ends.length === 3);
    assert.deepEqual(ends, ['x', 'TOO_LARGE', 'TOO_LARGE']);
    assert.ok(world.commit('a', 0, { w: '1' }).ok);
    assert.deepEqual([...world.state('b').keys()], ['w', 'x']);
  });

  test('end in CAPACITY when too many wait', () => {
    const world = running('capacity', ['a', 'b'], { waitingMax: 3 });
    const ends: string[] = [];
    for (let i = 0; i < 5; i++) {
      const end = (outcome: { ok: boolean }): number => ends.push(outcome.ok ? 'ok' : 'refused');
      world
        .node('a')
        .opened.get(0)
        ?.log.commit([{ key: `k${i}`, value: new Uint8Array(1) }], end);
    }
    world.until('all end', () => ends.length === 5);
    assert.deepEqual(ends, ['ok', 'ok', 'ok', 'refused', 'refused']);
  });
});

describe('a copy', () => {
  test('that was away for a moment gets what it has missed', () => {
    const world = running('tail');
    world.kill('b');
    for (let i = 0; i < 5; i++) assert.ok(world.commit('a', 0, { [`k${i}`]: 'v' }).ok);
    world.requests.length = 0;
    world.start('b');
    world.until('it is in sync', () => world.inSyncNames() === 'ab');
    assert.deepEqual(world.state('b'), world.state('a'));
    assert.ok(world.requests.every(({ message }) => message.kind === 'replicateCommits'));
  });

  test('that was away for too long gets a snapshot, and the old slot goes', () => {
    const world = running('snapshot', ['a', 'b'], { tailBytesMax: 100 });
    world.kill('b');
    for (let i = 0; i < 50; i++) assert.ok(world.commit('a', 0, { [`k${i}`]: 'v'.repeat(i) }).ok);
    world.requests.length = 0;
    world.start('b');
    world.until('it is in sync', () => world.inSyncNames() === 'ab', 20_000);
    assert.deepEqual(world.state('b'), world.state('a'));
    assert.ok(world.requests.some(({ message }) => message.kind === 'replicateSnapshot'));
    world.run(5_000);
    assert.equal(world.rows('b'), 51, 'one meta row and the rows of one slot');
  });

  test('gets a snapshot exactly while commits go on', () => {
    const world = running('while', ['a', 'b'], { tailBytesMax: 20_000 });
    world.kill('b');
    for (let i = 0; i < 300; i++) assert.ok(world.commit('a', 0, { [`k${i % 150}`]: 'v'.repeat(3_000 + i) }).ok);
    world.start('b');
    for (let i = 0; world.inSyncNames() !== 'ab'; i++) {
      assert.ok(i < 20_000);
      assert.ok(world.commit('a', 0, { [`k${(i * 7) % 200}`]: i % 3 === 0 ? null : `w${i}`, n: `${i}` }).ok);
    }
    assert.deepEqual(world.state('b'), world.state('a'));
  });

  test('refuses an owner that was superseded, and that one ends', () => {
    const world = running('superseded');
    const lost: string[] = [];
    world.hosting = { ...world.hosting, lost: (node) => lost.push(node.name) };
    // The old owner hears nothing of the registry any more, and for a while nothing of the new one.
    world.node('a').side.interrupt();
    world.cut.add('ab');
    world.give(0, 'b');
    world.until('b has it', () => world.node('b').opened.has(0));
    const ends: string[] = [];
    world
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], (outcome) => {
        ends.push(outcome.ok ? 'ok' : outcome.error.code);
      });
    world.run(3_000);
    assert.deepEqual([ends, lost], [[], []]);
    world.cut.clear();
    world.until('it ends', () => ends.length > 0);
    assert.deepEqual([ends, lost], [['FENCED'], ['a']]);
    assert.equal(world.state('b').has('k'), false);
  });

  test('that stands elsewhere is brought to exactly the state of the owner', () => {
    const world = running('diverged');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    world.cut.add('ab');
    // On the disk of a alone, acknowledged to nobody.
    world
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array([50]) }], () => assert.fail('no'));
    world.run(100);
    world.kill('a');
    assert.equal(world.state('a').get('k'), '2');
    world.cut.clear();
    world.give(0, 'b');
    world.until('b has it', () => world.node('b').opened.has(0));
    assert.equal(world.inSyncNames(), 'b');
    world.start('a');
    world.until('a is in sync', () => world.inSyncNames() === 'ab');
    assert.deepEqual(world.state('a'), new Map([['k', '1']]));
  });

  test('with a full disk is taken out and returns when there is room', () => {
    const world = running('full');
    world.node('b').disk.change({ full: true });
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    assert.equal(world.inSyncNames(), 'a');
    world.node('b').disk.heal();
    world.until('b is back', () => world.inSyncNames() === 'ab');
    assert.deepEqual(world.state('b'), world.state('a'));
  });

  test('that has its state before its own table says so keeps it', () => {
    const world = running('ahead of the table');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    const [a, b, c] = ['a', 'b', 'c'].map((name) => world.node(name).id) as [NodeId, NodeId, NodeId];
    world.node('c').side.interrupt();
    world.write(0, (record) => record && { ...record, note: 'c is not named here' });
    world.run(10);
    world.write(0, (record) => record && { ...record, copies: [a, b, c] });
    world.until('c is in sync', () => world.inSyncNames() === 'abc');
    world.node('c').side.resume();
    world.run(5_000);
    assert.deepEqual(world.state('c'), world.state('a'));
  });

  test('that the record no longer names is dropped, and only then', () => {
    const world = running('drop');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    const [a, c] = [world.node('a').id, world.node('c').id];
    world.write(0, (record) => record && { ...record, copies: [a, c] });
    world.until('c is in sync', () => world.inSyncNames() === 'ac');
    world.until('b has nothing but its fence', () => world.rows('b') === 1);
    assert.ok(world.meta('b').maxFence > 0n);
    assert.deepEqual(world.state('c'), world.state('a'));
    world.write(0, () => undefined);
    world.until('it is gone', () => world.rows('a') + world.rows('c') === 0);
  });
});

test('what all have is forgotten, and kept again as soon as somebody is away', () => {
  const world = running('forgotten');
  const { host } = world.node('a');
  for (let i = 0; i < 5; i++) assert.ok(world.commit('a', 0, { [`k${i}`]: 'v' }).ok);
  const lastBytes = host.metrics().tailBytes;
  assert.ok(lastBytes < 250, `not more than the last one: ${lastBytes}`);
  world.kill('b');
  for (let i = 0; i < 5; i++) assert.ok(world.commit('a', 0, { [`l${i}`]: 'v' }).ok);
  assert.ok(host.metrics().tailBytes > 3 * lastBytes, 'what the one that is away will need');
  world.requests.length = 0;
  world.start('b');
  world.until('it is in sync', () => world.inSyncNames() === 'ab');
  assert.ok(world.requests.every(({ message }) => message.kind === 'replicateCommits'));
  assert.deepEqual(world.state('b'), world.state('a'));
});

describe('commits on their way to a copy with a slow disk', () => {
  test('are sent without waiting for the former, written together, and end in order', () => {
    const world = new ReplicationTestCluster('together');
    for (const name of ['a', 'b']) world.start(name);
    world.create(0, ['a', 'b']);
    world.until('it is open', () => world.node('a').opened.has(0));
    world.until('its copy is in sync', () => world.inSyncNames() === 'ab');
    world.run(100);
    world.node('b').disk.change({ operationMs: 10, jitterMs: 0 });
    const [before, startMs] = [world.requests.length, world.timeline.nowMs];
    const ended: number[] = [];
    for (let i = 0; i < 6; i++) {
      const { log } = world.node('a').opened.get(0) ?? assert.fail('it is not open');
      log.commit(writesOf({ [`k${i}`]: 'v' }), (outcome) => assert.ok(outcome.ok && ended.push(i)));
      world.run(1);
    }
    assert.equal(world.requests.length - before, 4, 'so many are under way');
    world.until('all have ended', () => ended.length === 6);
    assert.deepEqual(ended, [0, 1, 2, 3, 4, 5]);
    assert.ok(world.timeline.nowMs - startMs < 35, 'three writes of the copy, not one for each request');
    assert.deepEqual(world.state('b'), world.state('a'));
  });
});
