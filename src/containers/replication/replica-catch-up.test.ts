/** Replicas that return with less than they had, or that are assigned again: they catch up completely. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Done, failure } from '../../base/errors.ts';
import type { RegistryTransaction, TransactionResult, WriteOptions } from '../../base/registry.ts';
import { ReplicationTestCluster, writesOf } from '../../../test/support/containers/replication-cluster.ts';
import { replicaMetaKey } from './replica-layout.ts';

type LocalTransact = (transaction: RegistryTransaction, options: WriteOptions, done: Done<TransactionResult>) => void;

function running(seed: string, names: readonly string[] = ['a', 'b'], settings = {}): ReplicationTestCluster {
  const cluster = new ReplicationTestCluster(seed, settings);
  for (const name of ['a', 'b', 'c']) cluster.start(name);
  cluster.create(0, names);
  cluster.until('it is open', () => cluster.node('a').opened.has(0));
  cluster.until('its replicas are in sync', () => cluster.inSyncNames() === names.join(''));
  return cluster;
}

function generationOf(cluster: ReplicationTestCluster, name: string): number | undefined {
  return cluster.record()?.inSync.find(({ node }) => node === cluster.node(name).id)?.generation;
}

describe('a replica that returns', () => {
  for (const [writers, diskMs] of [
    [1, 0.1],
    [8, 10],
  ] as const) {
    test(`joins the ISR although ${writers} writers never pause and its disk takes ${diskMs} ms`, () => {
      const cluster = running('never a pause', ['a', 'b'], { copyAckTimeoutMs: 200 });
      cluster.kill('b');
      let turn = 0;
      const write = (): void => {
        const { log } = cluster.node('a').opened.get(0) ?? assert.fail('it is not open');
        log.commit(writesOf({ [`k${turn++ % 100}`]: 'v' }), () => cluster.timeline.after(0.2, write));
      };
      for (let i = 0; i < writers; i++) write();
      cluster.until('it is out', () => cluster.inSyncNames() === 'a');
      cluster.start('b');
      cluster.node('b').disk.change({ operationMs: diskMs, jitterMs: 0 });
      cluster.until('it is in sync', () => cluster.inSyncNames() === 'ab');
    });
  }

  test('gets a snapshot when its meta row is damaged', () => {
    const cluster = running('damaged meta');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    cluster.kill('b');
    cluster.node('b').disk.store('store').corrupt(replicaMetaKey(7, 0), cluster.random);
    assert.ok(cluster.commit('a', 0, { k: '2' }).ok);
    cluster.start('b');
    cluster.until('it has a new snapshot', () => cluster.inSyncNames() === 'ab', 30_000);
    assert.deepEqual(cluster.state('b'), new Map([['k', '2']]));
  });

  test('with an empty memory gets a snapshot before the next commit', () => {
    const cluster = running('idle', ['a', 'b'], { durability: 'memory' });
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    cluster.reportsDeadNodes = true;
    cluster.kill('b');
    cluster.run(3_000);
    cluster.start('b');
    cluster.until('it has the state under its new generation', () => generationOf(cluster, 'b') === 2, 30_000);
    const found: string[] = [];
    cluster.hosting = {
      ...cluster.hosting,
      opened: (_node, _change, entries) => found.push(entries.map(({ key }) => key).join()),
    };
    cluster.kill('a');
    cluster.assignOwner(0, 'b');
    cluster.until('b has it', () => found.length === 1);
    assert.deepEqual(found, ['k']);
  });

  test('and is busy does not count as having the state', () => {
    const cluster = running('busy', ['a', 'b'], { durability: 'memory' });
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    cluster.kill('b');
    cluster.start('b').host.stop();
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => {});
    cluster.run(400);
    assert.notEqual(generationOf(cluster, 'b'), 2);
  });
});

describe('a replica that was removed and assigned again', () => {
  test('keeps its new state while the rows of the old one are being deleted', () => {
    for (let seed = 1; seed <= 100; seed++) {
      const cluster = running(`swept ${seed}`);
      for (const key of ['k', 'l', 'm']) assert.ok(cluster.commit('a', 0, { [key]: '1' }).ok);
      const { id } = cluster.node('b');
      // Two records do not name it, and the second arrives while it deletes rows because of the first.
      for (const note of ['first', 'second']) {
        cluster.write(0, (record) => {
          const inSync = record?.inSync.filter(({ node }) => node !== id) ?? [];
          return record && { ...record, note, copies: [cluster.node('a').id], inSync };
        });
        cluster.run(cluster.random.between(0, 8));
      }
      cluster.write(0, (record) => record && { ...record, copies: [...record.copies, id] });
      cluster.until('it is in sync again', () => cluster.inSyncNames() === 'ab', 30_000);
      cluster.run(500);
      assert.deepEqual([...cluster.state('b').keys()], ['k', 'l', 'm'], `seed ${seed}`);
    }
  });

  test('is not dropped late, after its owner has sent requests again', () => {
    const cluster = running('dropped late');
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    const { id, disk, registry } = cluster.node('b');
    const copies = cluster.record()?.copies ?? [];
    disk.change({ full: true });
    cluster.write(0, (record) => {
      const without = copies.filter((node) => node !== id);
      return record && { ...record, copies: without, inSync: record.inSync.filter(({ node }) => node !== id) };
    });
    cluster.run(100);
    disk.heal();
    // From here on the registry does not reach b.
    registry.interrupt();
    cluster.write(0, (record) => record && { ...record, copies });
    cluster.until('it has joined again', () => cluster.inSyncNames() === 'ab', 900);
    cluster.run(3_000);
    assert.equal(cluster.inSyncNames(), 'ab');
    assert.deepEqual(cluster.state('b'), new Map([['k', '1']]));
  });
});

describe('a pool with durability local', () => {
  test('is replicated to the target while it moves, and can open there', () => {
    const cluster = new ReplicationTestCluster('local', { durability: 'local' });
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.create(0, ['a', 'b']);
    cluster.until('it is open', () => cluster.node('a').opened.has(0));
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    cluster.run(5_000);
    assert.equal(cluster.inSyncNames(), 'a');
    const to = cluster.node('b').id;
    const move = { to, cause: 'drain', step: 'copying' } as const;
    cluster.write(0, (record) => record && { ...record, move });
    cluster.until('b has it', () => cluster.inSyncNames() === 'ab');
    assert.ok(cluster.commit('a', 0, { l: '2' }).ok);
    assert.deepEqual([...cluster.state('b').keys()], ['k', 'l']);
    cluster.write(0, (record) => record && { ...record, move: undefined });
    cluster.until('the move was cancelled', () => cluster.inSyncNames() === 'a');
    cluster.write(0, (record) => record && { ...record, move });
    cluster.until('b has it again', () => cluster.inSyncNames() === 'ab');
    cluster.assignOwner(0, 'b', { opening: 'migrate', move: undefined });
    cluster.until('b is open', () => cluster.node('b').opened.has(0));
    assert.ok(cluster.commit('b', 0, { m: '3' }).ok);
    cluster.until('only b is named', () => cluster.inSyncNames() === 'b');
  });
});

describe('a replica that leaves the record and is assigned again', () => {
  /** b has all commits and would join, but the registry refuses the updates of a. */
  function joining(seed: string): { readonly cluster: ReplicationTestCluster; readonly take: () => void } {
    const cluster = new ReplicationTestCluster(seed);
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.create(0, ['a']);
    cluster.until('it is open', () => cluster.node('a').opened.has(0));
    assert.ok(cluster.commit('a', 0, { k: '1' }).ok);
    const registry = cluster.node('a').registry as unknown as { transact: LocalTransact };
    const transact = registry.transact.bind(registry);
    registry.transact = (_transaction, _options, done) => {
      cluster.timeline.after(1, () => done(failure('NO_QUORUM')));
    };
    assign(cluster, true);
    cluster.until('b has it', () => cluster.state('b').get('k') === '1');
    cluster.run(200);
    return { cluster, take: () => (registry.transact = transact) };
  }

  function assign(cluster: ReplicationTestCluster, isAssigned: boolean): void {
    const [a, b] = [cluster.node('a').id, cluster.node('b').id];
    cluster.write(0, (record) => record && { ...record, copies: isAssigned ? [a, b] : [a] });
  }

  function joins(cluster: ReplicationTestCluster): void {
    let wasWhole = true;
    cluster.until(
      'b has joined',
      () => {
        const isIn = cluster.inSyncNames() === 'ab';
        if (isIn) wasWhole = cluster.state('b').get('k') === '1';
        return isIn;
      },
      30_000,
    );
    assert.ok(wasWhole, 'the record names b in the ISR, and b has no state');
    cluster.run(1_000);
    assert.equal(cluster.state('b').get('k'), '1');
  }

  test('joins only with its current state', () => {
    const { cluster, take } = joining('out and in');
    assign(cluster, false);
    cluster.until('b has dropped it', () => cluster.meta('b').slot === undefined);
    assign(cluster, true);
    take();
    joins(cluster);
  });

  test('joins only with its current state, even if its owner missed the record without it', () => {
    const { cluster, take } = joining('unseen');
    const { host } = cluster.node('a');
    const changed = host.changed.bind(host);
    host.changed = () => {};
    assign(cluster, false);
    cluster.until('b has dropped it', () => cluster.meta('b').slot === undefined);
    host.changed = changed;
    assign(cluster, true);
    take();
    joins(cluster);
  });

  test('joins only with its current state, even if its owner learns of it from its own update', () => {
    const { cluster, take } = joining('written');
    const { host } = cluster.node('a');
    host.changed = () => {};
    assign(cluster, false);
    cluster.until('b has dropped it', () => cluster.meta('b').slot === undefined);
    assign(cluster, true);
    cluster.run(10);
    take();
    joins(cluster);
  });

  test('causes no record updates while it is not assigned', () => {
    const { cluster, take } = joining('out');
    assign(cluster, false);
    cluster.run(100);
    take();
    cluster.run(1_000);
    const revision = (): number => cluster.registry.keyspace.range({ from: '/', to: '0' }, 10).revision;
    const before = revision();
    cluster.run(5_000);
    assert.equal(revision(), before, 'the record is not written repeatedly');
  });

  test('refuses an owner with an old record that still names it', () => {
    const cluster = running('late owner');
    const { host, id } = cluster.node('a');
    host.changed = () => {};
    cluster.write(0, (record) => record && { ...record, copies: [id], inSync: [{ node: id, generation: 1 }] });
    cluster.until('b has dropped it', () => cluster.node('b').events.some(({ kind }) => kind === 'dropped'));
    const rows = cluster.rows('b');
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => {});
    cluster.run(900);
    assert.equal(cluster.rows('b'), rows);
    cluster.until('its owner learns of the record', () => cluster.node('a').host.metrics().waiting === 0);
    assert.equal(cluster.inSyncNames(), 'a');
    assert.equal(cluster.rows('b'), rows);
  });
});
