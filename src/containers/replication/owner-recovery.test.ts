/** How owners start and end with the state on their disks: short scenarios of three nodes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fenceOf } from '../../base/fence.ts';
import { ReplicationTestCluster } from '../../../test/support/containers/replication-cluster.ts';

function running(seed: string, names: readonly string[] = ['a', 'b'], settings = {}): ReplicationTestCluster {
  const cluster = new ReplicationTestCluster(seed, settings);
  for (const name of ['a', 'b', 'c']) cluster.start(name);
  cluster.create(0, names);
  cluster.until('it is open', () => cluster.node('a').opened.has(0));
  cluster.until('its replicas are in sync', () => cluster.inSyncNames() === names.join(''));
  return cluster;
}

describe('an owner that opens a container', () => {
  test('finds all acknowledged commits after a restart', () => {
    const cluster = running('restart');
    assert.ok(cluster.commit('a', 0, { k: '1', l: '2' }).ok);
    cluster.kill('a');
    cluster.start('a');
    const found: string[] = [];
    const opened = (_node: unknown, _change: unknown, entries: readonly { key: string }[]): void => {
      found.push(entries.map(({ key }) => key).join(''));
    };
    cluster.hosting = { ...cluster.hosting, opened };
    cluster.assignOwner(0, 'a', { opening: 'restart' });
    cluster.until('it is open', () => found.length === 1);
    assert.deepEqual(found, ['kl']);
    assert.ok(cluster.commit('a', 0, { k: '3' }).ok);
    assert.equal(cluster.state('b').get('k'), '3');
  });

  test('writes its fence to every disk in the ISR before any commit', () => {
    const cluster = running('fence', ['a', 'b', 'c']);
    cluster.node('a').registry.interrupt();
    cluster.cut.add('ab').add('ac');
    cluster.assignOwner(0, 'b');
    cluster.until('b has it', () => cluster.node('b').opened.has(0));
    cluster.kill('c');
    assert.equal(cluster.inSyncNames(), 'bc');
    assert.deepEqual(
      [cluster.meta('b').maxFence, cluster.meta('c').maxFence],
      [cluster.record()?.fence, cluster.record()?.fence],
    );
  });

  test('does not overwrite a later owner that arrives during the opening', () => {
    const cluster = running('overtaken', ['a']);
    const { host, id, tried } = cluster.node('a');
    cluster.assignOwner(0, 'a');
    cluster.until('it has started to open', () => tried.get(0) === cluster.record()?.fence);
    const later = fenceOf(7, 7);
    const value = new TextEncoder().encode('later');
    const of = { pool: 7, container: 0, fence: later, inMemory: false, revision: 9 };
    const whole = {
      snapshot: 1,
      step: 0,
      entries: [{ key: 'k', value }],
      commits: [],
      install: { fence: later, seq: 3 },
    };
    host.handle({ id }, { kind: 'replicateSnapshot', ...of, ...whole }, (outcome) => assert.ok(outcome.ok));
    const { log } = cluster.node('a').opened.get(0) ?? {};
    let code: string | undefined;
    cluster.until('it is open again', () => cluster.node('a').opened.get(0)?.log !== log);
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit(
        [{ key: 'k', value: new Uint8Array(1) }],
        (outcome) => (code = outcome.ok ? 'ok' : outcome.error.code),
      );
    cluster.until('it ends', () => code !== undefined);
    assert.deepEqual([code, cluster.state('a')], ['FENCED', new Map([['k', 'later']])]);
  });

  test('has replicas that refuse malformed commits', () => {
    const cluster = running('no rows', ['a', 'b']);
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    const { host, id } = cluster.node('b');
    const { maxFence: fence, position } = cluster.meta('b');
    const request = { kind: 'replicateCommits', pool: 7, container: 0, fence, inMemory: false, revision: 9 } as const;
    let code: string | undefined;
    host.handle({ id }, { ...request, after: position, commits: [Uint8Array.of(1, 2, 3)] }, (outcome) => {
      code = outcome.ok ? 'taken' : outcome.error.code;
    });
    assert.equal(code, 'MALFORMED');
    assert.ok(cluster.commit('a', 0, { k: '2' }).ok);
    assert.deepEqual(cluster.state('b'), new Map([['k', '2']]));
  });

  test('never starts empty if the container had state', () => {
    const cluster = running('lost disk');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    cluster.kill('a');
    cluster.kill('b');
    cluster.node('b').disk.stores.clear();
    cluster.start('b');
    const codes: string[] = [];
    cluster.hosting = { ...cluster.hosting, notOpened: (_node, _change, code) => codes.push(code) };
    cluster.assignOwner(0, 'b');
    cluster.until('it is refused', () => codes.length === 1, 20_000);
    assert.deepEqual(codes, ['STORE_CORRUPT']);
    assert.equal(cluster.inSyncNames(), 'a', 'the ISR has only the replica with the state');
  });

  test('refuses damaged state, and gets a snapshot from the next owner', () => {
    const cluster = running('damaged');
    assert.ok(cluster.commit('a', 0, { k: 'some value' }).ok);
    cluster.kill('a');
    const content = cluster.node('a').disk.store('store');
    const rows = content.read({ from: 'copies/s/', to: 'copies/t', limit: 10 });
    assert.ok(rows.ok);
    content.corrupt(rows.value[0]?.key ?? '', cluster.random);
    cluster.start('a');
    const codes: string[] = [];
    cluster.hosting = { ...cluster.hosting, notOpened: (_node, _change, code) => codes.push(code) };
    cluster.assignOwner(0, 'a', { opening: 'restart' });
    cluster.until('it is refused', () => codes.length === 1);
    assert.deepEqual([codes, cluster.inSyncNames()], [['STORE_CORRUPT'], 'b']);
    cluster.assignOwner(0, 'b');
    cluster.until('a has a new snapshot', () => cluster.inSyncNames() === 'ab', 20_000);
    assert.deepEqual(cluster.state('a'), new Map([['k', 'some value']]));
  });

  test('starts a new container empty, whatever is on its disk', () => {
    const cluster = running('new');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    const found: number[] = [];
    cluster.hosting = { ...cluster.hosting, opened: (_node, _change, entries) => found.push(entries.length) };
    cluster.assignOwner(0, 'a', {
      opening: 'init',
      phase: 'opening',
      inSync: [{ node: cluster.node('a').id, generation: 1 }],
    });
    cluster.until('it is open', () => found.length === 1);
    assert.deepEqual(found, [0]);
    cluster.until('b follows', () => cluster.inSyncNames() === 'ab');
    assert.deepEqual(cluster.state('b'), new Map());
  });

  test('does not serve a commit that may still be lost', () => {
    const cluster = running('unacknowledged', ['a', 'b', 'c']);
    cluster.cut.add('ac');
    // b has the commit, c has not, and it is not acknowledged.
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => assert.fail('no'));
    cluster.run(50);
    cluster.kill('a');
    assert.deepEqual([cluster.state('b').has('k'), cluster.state('c').has('k')], [true, false]);
    cluster.cut.add('bc');
    cluster.assignOwner(0, 'b');
    const isOpen = (): boolean => cluster.node('b').opened.has(0);
    cluster.run(500);
    assert.equal(isOpen(), false, 'c is in the ISR and lacks the commit that b would serve');
    cluster.until('c has left the ISR', isOpen);
    assert.equal(cluster.inSyncNames(), 'b');
  });
});

describe('a node', () => {
  test('drops replicas that are no longer its own when it returns', () => {
    const cluster = running('leftovers');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    cluster.kill('b');
    cluster.write(0, () => undefined);
    cluster.run(100);
    const b = cluster.start('b', 1_000);
    cluster.run(5_000);
    assert.ok(cluster.rows('b') > 0, 'no replica is dropped because it is unknown');
    b.host.reconcile(() => 'drop');
    cluster.until('all is gone', () => cluster.rows('b') === 0);
  });

  test('lists the replicas that it hosts', () => {
    const cluster = running('holdings');
    const brief = (name: string): string =>
      cluster
        .node(name)
        .host.hostedReplicas()
        .map(({ pool, id, role, inSync }) => `${pool}/${id} ${role} ${inSync}`)
        .join();
    cluster.run(10);
    assert.deepEqual([brief('a'), brief('b'), brief('c')], ['p/0 owner true', 'p/0 copy true', '']);
    assert.deepEqual(cluster.node('a').host.metrics().open, 1);
  });

  test('closes a container after its pending commits have ended', () => {
    const cluster = running('close');
    const ends: string[] = [];
    const log = cluster.node('a').opened.get(0)?.log;
    log?.commit([{ key: 'k', value: new Uint8Array(1) }], (outcome) => ends.push(outcome.ok ? 'ok' : 'no'));
    log?.close(() => ends.push('closed'));
    log?.commit([{ key: 'l', value: new Uint8Array(1) }], (outcome) =>
      ends.push(outcome.ok ? 'ok' : outcome.error.code),
    );
    cluster.until('it is closed', () => ends.includes('closed'));
    assert.deepEqual(ends, ['ok', 'FENCED', 'closed']);
    assert.equal(cluster.node('a').host.metrics().open, 0);
  });
});

describe('a pool in memory', () => {
  test('touches no disk, and keeps its state as long as one replica lives', () => {
    const cluster = running('memory', ['a', 'b'], { durability: 'memory' });
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    assert.equal(cluster.rows('a') + cluster.rows('b'), 0);
    cluster.kill('a');
    const found: string[] = [];
    const opened = (_node: unknown, _change: unknown, entries: readonly { key: string }[]): void => {
      found.push(entries.map(({ key }) => key).join());
    };
    cluster.hosting = { ...cluster.hosting, opened };
    cluster.assignOwner(0, 'b');
    cluster.until('b has it', () => found.length === 1);
    assert.deepEqual(found, ['k']);
    cluster.start('a');
    cluster.until('a is in the ISR under its new generation', () => {
      const replica = cluster.record()?.inSync.find(({ node }) => node === cluster.node('a').id);
      return replica?.generation === 2;
    });
    assert.ok(cluster.commit('b', 0, { l: '2' }).ok);
  });
});
