/** Three nodes with disks: acknowledged commits are on every required replica, in short scenarios. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import { ReplicationTestCluster, writesOf } from '../../../test/support/containers/replication-cluster.ts';

function running(seed: string, names: readonly string[] = ['a', 'b'], settings = {}): ReplicationTestCluster {
  const cluster = new ReplicationTestCluster(seed, settings);
  for (const name of ['a', 'b', 'c']) cluster.start(name);
  cluster.create(0, names);
  cluster.until('it is open', () => cluster.node('a').opened.has(0));
  cluster.until('its replicas are in sync', () => cluster.inSyncNames() === names.join(''));
  return cluster;
}

describe('commits', () => {
  test('end in order, when every disk in the ISR has them', () => {
    const cluster = running('order');
    const ended: number[] = [];
    const log = cluster.node('a').opened.get(0)?.log;
    for (let i = 0; i < 50; i++) {
      log?.commit([{ key: `k${i}`, value: new Uint8Array([i]) }], (outcome) => {
        assert.ok(outcome.ok);
        assert.ok(cluster.state('a').has(`k${i}`) && cluster.state('b').has(`k${i}`));
        ended.push(i);
      });
    }
    cluster.until('all end', () => ended.length === 50);
    assert.deepEqual(
      ended,
      Array.from({ length: 50 }, (_, i) => i),
    );
    assert.deepEqual(cluster.state('b'), cluster.state('a'));
    assert.equal(cluster.rows('c'), 0);
  });

  test('of one turn share writes and requests', () => {
    const cluster = running('together');
    cluster.requests.length = 0;
    let ended = 0;
    for (let i = 0; i < 100; i++) {
      cluster
        .node('a')
        .opened.get(0)
        ?.log.commit([{ key: `k${i}`, value: new Uint8Array(10) }], () => (ended += 1));
    }
    cluster.until('all end', () => ended === 100);
    assert.equal(cluster.requests.length, 1);
  });

  test('are acknowledged 256 per turn, so that the first callers go on meanwhile', () => {
    const cluster = running('turns');
    const log = cluster.node('a').opened.get(0)?.log;
    let ended = 0;
    for (let i = 0; i < 600; i++) log?.commit([{ key: `k${i}`, value: new Uint8Array(10) }], () => (ended += 1));
    const counts: number[] = [];
    cluster.until('all end', () => {
      if (ended !== counts.at(-1)) counts.push(ended);
      return ended === 600;
    });
    assert.deepEqual(counts, [0, 256, 512, 600]);
  });

  test('go on without a dead replica, but not before the record no longer names it', () => {
    const cluster = running('without');
    cluster.kill('b');
    let isAcknowledged = false;
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => {
        isAcknowledged = true;
        assert.equal(cluster.inSyncNames(), 'a');
      });
    cluster.run(900);
    assert.equal(isAcknowledged, false, 'it waits for the replica first');
    cluster.until('it is acknowledged', () => isAcknowledged, 1_000);
    assert.deepEqual(
      cluster.node('a').events.map(({ kind }) => kind),
      ['inSync', 'inSync'],
    );
  });

  test('do not wait for a replica that membership has declared dead', () => {
    for (const how of ['reported', 'queried']) {
      const cluster = running(`dead ${how}`);
      cluster.kill('b');
      if (how === 'queried') cluster.reportsDeadNodes = true;
      let isAcknowledged = false;
      cluster
        .node('a')
        .opened.get(0)
        ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => (isAcknowledged = true));
      if (how === 'reported') cluster.node('a').host.peerLost(cluster.node('b').id);
      cluster.until('it is acknowledged', () => isAcknowledged, 300);
    }
  });

  test('reach a replica again as soon as membership reports it as back', () => {
    const cluster = running('back');
    cluster.kill('b');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    // Long enough for the backoff to reach its maximum.
    cluster.run(20_000);
    cluster.start('b');
    cluster.node('a').host.peerReturned(cluster.node('b').id);
    cluster.until('it is in sync', () => cluster.inSyncNames() === 'ab', 200);
  });

  test('wait while the record cannot be changed', () => {
    const cluster = running('no quorum');
    cluster.kill('b');
    cluster.node('a').registry.interrupt('NO_QUORUM');
    let isAcknowledged = false;
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => (isAcknowledged = true));
    cluster.run(30_000);
    assert.equal(isAcknowledged, false);
    cluster.node('a').registry.resume();
    cluster.until('it is acknowledged', () => isAcknowledged, 3_000);
    assert.equal(cluster.inSyncNames(), 'a');
  });

  test('behind a refused commit are refused with it, in order', () => {
    const cluster = running('behind');
    const ends: string[] = [];
    const log = cluster.node('a').opened.get(0)?.log;
    for (const [key, size] of [
      ['x', 10],
      ['y', 11_000_000],
      ['z', 10],
    ] as const) {
      log?.commit([{ key, value: new Uint8Array(size) }], (outcome) =>
        ends.push(outcome.ok ? key : outcome.error.code),
      );
    }
    cluster.until('all end', () => ends.length === 3);
    assert.deepEqual(ends, ['x', 'TOO_LARGE', 'TOO_LARGE']);
    assert.ok(cluster.commit('a', 0, { w: '1' }).ok);
    assert.deepEqual([...cluster.state('b').keys()], ['w', 'x']);
  });

  test('end in CAPACITY when too many are pending', () => {
    const cluster = running('capacity', ['a', 'b'], { waitingMax: 3 });
    const ends: string[] = [];
    for (let i = 0; i < 5; i++) {
      const end = (outcome: { ok: boolean }): number => ends.push(outcome.ok ? 'ok' : 'refused');
      cluster
        .node('a')
        .opened.get(0)
        ?.log.commit([{ key: `k${i}`, value: new Uint8Array(1) }], end);
    }
    cluster.until('all end', () => ends.length === 5);
    assert.deepEqual(ends, ['ok', 'ok', 'ok', 'refused', 'refused']);
  });
});

describe('a replica', () => {
  test('that was away for a moment gets the commits it has missed', () => {
    const cluster = running('tail');
    cluster.kill('b');
    for (let i = 0; i < 5; i++) assert.ok(cluster.commit('a', 0, { [`k${i}`]: 'v' }).ok);
    cluster.requests.length = 0;
    cluster.start('b');
    cluster.until('it is in sync', () => cluster.inSyncNames() === 'ab');
    assert.deepEqual(cluster.state('b'), cluster.state('a'));
    assert.ok(cluster.requests.every(({ message }) => message.kind === 'replicateCommits'));
  });

  test('that was away for too long gets a snapshot, and its old slot is deleted', () => {
    const cluster = running('snapshot', ['a', 'b'], { tailBytesMax: 100 });
    cluster.kill('b');
    for (let i = 0; i < 50; i++) assert.ok(cluster.commit('a', 0, { [`k${i}`]: 'v'.repeat(i) }).ok);
    cluster.requests.length = 0;
    cluster.start('b');
    cluster.until('it is in sync', () => cluster.inSyncNames() === 'ab', 20_000);
    assert.deepEqual(cluster.state('b'), cluster.state('a'));
    assert.ok(cluster.requests.some(({ message }) => message.kind === 'replicateSnapshot'));
    cluster.run(5_000);
    assert.equal(cluster.rows('b'), 51, 'one meta row and the rows of one slot');
  });

  test('gets an exact snapshot while commits go on', () => {
    const cluster = running('while', ['a', 'b'], { tailBytesMax: 20_000 });
    cluster.kill('b');
    for (let i = 0; i < 300; i++) assert.ok(cluster.commit('a', 0, { [`k${i % 150}`]: 'v'.repeat(3_000 + i) }).ok);
    cluster.start('b');
    for (let i = 0; cluster.inSyncNames() !== 'ab'; i++) {
      assert.ok(i < 20_000);
      assert.ok(cluster.commit('a', 0, { [`k${(i * 7) % 200}`]: i % 3 === 0 ? null : `w${i}`, n: `${i}` }).ok);
    }
    assert.deepEqual(cluster.state('b'), cluster.state('a'));
  });

  test('refuses a superseded owner, and that owner ends', () => {
    const cluster = running('superseded');
    const lost: string[] = [];
    cluster.hosting = { ...cluster.hosting, lost: (node) => lost.push(node.name) };
    // The old owner is cut off from the registry, and for a while from the new owner.
    cluster.node('a').registry.interrupt();
    cluster.cut.add('ab');
    cluster.assignOwner(0, 'b');
    cluster.until('b has it', () => cluster.node('b').opened.has(0));
    const ends: string[] = [];
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], (outcome) => {
        ends.push(outcome.ok ? 'ok' : outcome.error.code);
      });
    cluster.run(3_000);
    assert.deepEqual([ends, lost], [[], []]);
    cluster.cut.clear();
    cluster.until('it ends', () => ends.length > 0);
    assert.deepEqual([ends, lost], [['FENCED'], ['a']]);
    assert.equal(cluster.state('b').has('k'), false);
  });

  test('with a diverged log gets exactly the state of the owner', () => {
    const cluster = running('diverged');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    cluster.cut.add('ab');
    // On the disk of a alone, and not acknowledged.
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array([50]) }], () => assert.fail('no'));
    cluster.run(100);
    cluster.kill('a');
    assert.equal(cluster.state('a').get('k'), '2');
    cluster.cut.clear();
    cluster.assignOwner(0, 'b');
    cluster.until('b has it', () => cluster.node('b').opened.has(0));
    assert.equal(cluster.inSyncNames(), 'b');
    cluster.start('a');
    cluster.until('a is in sync', () => cluster.inSyncNames() === 'ab');
    assert.deepEqual(cluster.state('a'), new Map([['k', '1']]));
  });

  test('with a full disk leaves the ISR, and returns when there is room', () => {
    const cluster = running('full');
    cluster.node('b').disk.change({ full: true });
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    assert.equal(cluster.inSyncNames(), 'a');
    cluster.node('b').disk.heal();
    cluster.until('b is back', () => cluster.inSyncNames() === 'ab');
    assert.deepEqual(cluster.state('b'), cluster.state('a'));
  });

  test('keeps a state that arrives before the record that assigns it', () => {
    const cluster = running('ahead of the table');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    const [a, b, c] = ['a', 'b', 'c'].map((name) => cluster.node(name).id) as [NodeId, NodeId, NodeId];
    cluster.node('c').registry.interrupt();
    cluster.write(0, (record) => record && { ...record, note: 'c is not named here' });
    cluster.run(10);
    cluster.write(0, (record) => record && { ...record, copies: [a, b, c] });
    cluster.until('c is in sync', () => cluster.inSyncNames() === 'abc');
    cluster.node('c').registry.resume();
    cluster.run(5_000);
    assert.deepEqual(cluster.state('c'), cluster.state('a'));
  });

  test('is dropped when the record no longer names it, and only then', () => {
    const cluster = running('drop');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    const [a, c] = [cluster.node('a').id, cluster.node('c').id];
    cluster.write(0, (record) => record && { ...record, copies: [a, c] });
    cluster.until('c is in sync', () => cluster.inSyncNames() === 'ac');
    cluster.until('b has nothing but its fence', () => cluster.rows('b') === 1);
    assert.ok(cluster.meta('b').maxFence > 0n);
    assert.deepEqual(cluster.state('c'), cluster.state('a'));
    cluster.write(0, () => undefined);
    cluster.until('it is gone', () => cluster.rows('a') + cluster.rows('c') === 0);
  });
});

test('an owner trims commits that all replicas have, and keeps them while a replica is away', () => {
  const cluster = running('forgotten');
  const { host } = cluster.node('a');
  for (let i = 0; i < 5; i++) assert.ok(cluster.commit('a', 0, { [`k${i}`]: 'v' }).ok);
  const lastBytes = host.metrics().tailBytes;
  assert.ok(lastBytes < 250, `only the last commit is kept: ${lastBytes} bytes`);
  cluster.kill('b');
  for (let i = 0; i < 5; i++) assert.ok(cluster.commit('a', 0, { [`l${i}`]: 'v' }).ok);
  assert.ok(host.metrics().tailBytes > 3 * lastBytes, 'the absent replica will need them');
  cluster.requests.length = 0;
  cluster.start('b');
  cluster.until('it is in sync', () => cluster.inSyncNames() === 'ab');
  assert.ok(cluster.requests.every(({ message }) => message.kind === 'replicateCommits'));
  assert.deepEqual(cluster.state('b'), cluster.state('a'));
});

describe('commits for a replica with a slow disk', () => {
  test('are pipelined, written together, and end in order', () => {
    const cluster = new ReplicationTestCluster('together');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.create(0, ['a', 'b']);
    cluster.until('it is open', () => cluster.node('a').opened.has(0));
    cluster.until('its replica is in sync', () => cluster.inSyncNames() === 'ab');
    cluster.run(100);
    cluster.node('b').disk.change({ operationMs: 10, jitterMs: 0 });
    const [before, startMs] = [cluster.requests.length, cluster.timeline.nowMs];
    const ended: number[] = [];
    for (let i = 0; i < 6; i++) {
      const { log } = cluster.node('a').opened.get(0) ?? assert.fail('it is not open');
      log.commit(writesOf({ [`k${i}`]: 'v' }), (outcome) => assert.ok(outcome.ok && ended.push(i)));
      cluster.run(1);
    }
    assert.equal(cluster.requests.length - before, 4, 'four requests are in flight');
    cluster.until('all have ended', () => ended.length === 6);
    assert.deepEqual(ended, [0, 1, 2, 3, 4, 5]);
    assert.ok(cluster.timeline.nowMs - startMs < 35, 'the replica writes three times, not once per request');
    assert.deepEqual(cluster.state('b'), cluster.state('a'));
  });
});
