/** Copies that come back with less than they had, or are meant again after they were not: they are made whole. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Done, failure } from '../../base/errors.ts';
import type { RegistryTransaction, TransactionResult, WriteOptions } from '../../base/registry.ts';
import { ReplicationTestCluster, writesOf } from '../../../test/support/containers/replication-cluster.ts';
import { replicaMetaKey } from './replica-layout.ts';

type LocalTransact = (transaction: RegistryTransaction, options: WriteOptions, done: Done<TransactionResult>) => void;

function running(seed: string, names: readonly string[] = ['a', 'b'], settings = {}): ReplicationTestCluster {
  const world = new ReplicationTestCluster(seed, settings);
  for (const name of ['a', 'b', 'c']) world.start(name);
  world.create(0, names);
  world.until('it is open', () => world.node('a').opened.has(0));
  world.until('its copies are in sync', () => world.inSyncNames() === names.join(''));
  return world;
}

function generationOf(world: ReplicationTestCluster, name: string): number | undefined {
  return world.record()?.inSync.find(({ node }) => node === world.node(name).id)?.generation;
}

describe('a copy that comes back', () => {
  for (const [writers, diskMs] of [
    [1, 0.1],
    [8, 10],
  ] as const) {
    test(`is in sync again although ${writers} writers never pause and its disk takes ${diskMs} ms`, () => {
      const world = running('never a pause', ['a', 'b'], { copyAckTimeoutMs: 200 });
      world.kill('b');
      let turn = 0;
      const write = (): void => {
        const { log } = world.node('a').opened.get(0) ?? assert.fail('it is not open');
        log.commit(writesOf({ [`k${turn++ % 100}`]: 'v' }), () => world.timeline.after(0.2, write));
      };
      for (let i = 0; i < writers; i++) write();
      world.until('it is out', () => world.inSyncNames() === 'a');
      world.start('b');
      world.node('b').disk.change({ operationMs: diskMs, jitterMs: 0 });
      world.until('it is in sync', () => world.inSyncNames() === 'ab');
    });
  }

  test('gets everything anew when what it knows of its own state is damaged', () => {
    const world = running('damaged meta');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    world.kill('b');
    world.node('b').disk.store('store').corrupt(replicaMetaKey(7, 0), world.random);
    assert.ok(world.commit('a', 0, { k: '2' }).ok);
    world.start('b');
    world.until('it is copied anew', () => world.inSyncNames() === 'ab', 30_000);
    assert.deepEqual(world.state('b'), new Map([['k', '2']]));
  });

  test('with nothing in memory gets everything before anybody writes', () => {
    const world = running('idle', ['a', 'b'], { durability: 'memory' });
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    world.knowsTheDead = true;
    world.kill('b');
    world.run(3_000);
    world.start('b');
    world.until('it has the state in its new life', () => generationOf(world, 'b') === 2, 30_000);
    const found: string[] = [];
    world.hosting = {
      ...world.hosting,
      opened: (_node, _change, entries) => found.push(entries.map(({ key }) => key).join()),
    };
    world.kill('a');
    world.give(0, 'b');
    world.until('b has it', () => found.length === 1);
    assert.deepEqual(found, ['k']);
  });

  test('and is busy says nothing about what its new life has', () => {
    const world = running('busy', ['a', 'b'], { durability: 'memory' });
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    world.kill('b');
    world.start('b').host.stop();
    world
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => {});
    world.run(400);
    assert.notEqual(generationOf(world, 'b'), 2);
  });
});

describe('a copy that was not meant for a while', () => {
  test('keeps what it is given anew, whatever of the old is still being swept', () => {
    for (let seed = 1; seed <= 100; seed++) {
      const world = running(`swept ${seed}`);
      for (const key of ['k', 'l', 'm']) assert.ok(world.commit('a', 0, { [key]: '1' }).ok);
      const { id } = world.node('b');
      // Two records do not name it, and it hears of the second while it sweeps because of the first.
      for (const note of ['first', 'second']) {
        world.write(0, (record) => {
          const inSync = record?.inSync.filter(({ node }) => node !== id) ?? [];
          return record && { ...record, note, copies: [world.node('a').id], inSync };
        });
        world.run(world.random.between(0, 8));
      }
      world.write(0, (record) => record && { ...record, copies: [...record.copies, id] });
      world.until('it is in sync again', () => world.inSyncNames() === 'ab', 30_000);
      world.run(500);
      assert.deepEqual([...world.state('b').keys()], ['k', 'l', 'm'], `seed ${seed}`);
    }
  });

  test('is not dropped late, when its owner counts on it again', () => {
    const world = running('dropped late');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    const { id, disk, side } = world.node('b');
    const copies = world.record()?.copies ?? [];
    disk.change({ full: true });
    world.write(0, (record) => {
      const without = copies.filter((node) => node !== id);
      return record && { ...record, copies: without, inSync: record.inSync.filter(({ node }) => node !== id) };
    });
    world.run(100);
    disk.heal();
    // From here on it does not hear what the registry says.
    side.interrupt();
    world.write(0, (record) => record && { ...record, copies });
    world.until('it has joined again', () => world.inSyncNames() === 'ab', 900);
    world.run(3_000);
    assert.equal(world.inSyncNames(), 'ab');
    assert.deepEqual(world.state('b'), new Map([['k', '1']]));
  });
});

describe('a pool that is only on the disk of its owner', () => {
  test('is copied while it moves, and can be given to where it was copied', () => {
    const world = new ReplicationTestCluster('local', { durability: 'local' });
    for (const name of ['a', 'b']) world.start(name);
    world.create(0, ['a', 'b']);
    world.until('it is open', () => world.node('a').opened.has(0));
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    world.run(5_000);
    assert.equal(world.inSyncNames(), 'a');
    const to = world.node('b').id;
    const move = { to, cause: 'drain', step: 'copying' } as const;
    world.write(0, (record) => record && { ...record, move });
    world.until('b has it', () => world.inSyncNames() === 'ab');
    assert.ok(world.commit('a', 0, { l: '2' }).ok);
    assert.deepEqual([...world.state('b').keys()], ['k', 'l']);
    world.write(0, (record) => record && { ...record, move: undefined });
    world.until('the move was given up', () => world.inSyncNames() === 'a');
    world.write(0, (record) => record && { ...record, move });
    world.until('b has it again', () => world.inSyncNames() === 'ab');
    world.give(0, 'b', { opening: 'migrate', move: undefined });
    world.until('b is open', () => world.node('b').opened.has(0));
    assert.ok(world.commit('b', 0, { m: '3' }).ok);
    world.until('only b is named', () => world.inSyncNames() === 'b');
  });
});

describe('a copy that is taken out of the record and meant again', () => {
  /** b has everything and would join, if the registry took what a writes. */
  function joining(seed: string): { readonly world: ReplicationTestCluster; readonly take: () => void } {
    const world = new ReplicationTestCluster(seed);
    for (const name of ['a', 'b']) world.start(name);
    world.create(0, ['a']);
    world.until('it is open', () => world.node('a').opened.has(0));
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    const side = world.node('a').side as unknown as { transact: LocalTransact };
    const transact = side.transact.bind(side);
    side.transact = (_transaction, _options, done) => {
      world.timeline.after(1, () => done(failure('NO_QUORUM')));
    };
    mean(world, true);
    world.until('b has it', () => world.state('b').get('k') === '1');
    world.run(200);
    return { world, take: () => (side.transact = transact) };
  }

  function mean(world: ReplicationTestCluster, isMeant: boolean): void {
    const [a, b] = [world.node('a').id, world.node('b').id];
    world.write(0, (record) => record && { ...record, copies: isMeant ? [a, b] : [a] });
  }

  function joins(world: ReplicationTestCluster): void {
    let wasWhole = true;
    world.until(
      'b has joined',
      () => {
        const isIn = world.inSyncNames() === 'ab';
        if (isIn) wasWhole = world.state('b').get('k') === '1';
        return isIn;
      },
      30_000,
    );
    assert.ok(wasWhole, 'the record names b, and b has nothing');
    world.run(1_000);
    assert.equal(world.state('b').get('k'), '1');
  }

  test('joins only with what it has by then', () => {
    const { world, take } = joining('out and in');
    mean(world, false);
    world.until('b has dropped it', () => world.meta('b').slot === undefined);
    mean(world, true);
    take();
    joins(world);
  });

  test('joins only with what it has by then, also if its owner has not seen that it was out', () => {
    const { world, take } = joining('unseen');
    const { host } = world.node('a');
    const changed = host.changed.bind(host);
    host.changed = () => {};
    mean(world, false);
    world.until('b has dropped it', () => world.meta('b').slot === undefined);
    host.changed = changed;
    mean(world, true);
    take();
    joins(world);
  });

  test('joins only with what it has by then, also if its owner hears of it when it writes', () => {
    const { world, take } = joining('written');
    const { host } = world.node('a');
    host.changed = () => {};
    mean(world, false);
    world.until('b has dropped it', () => world.meta('b').slot === undefined);
    mean(world, true);
    world.run(10);
    take();
    joins(world);
  });

  test('costs nothing while it is out', () => {
    const { world, take } = joining('out');
    mean(world, false);
    world.run(100);
    take();
    world.run(1_000);
    const revision = (): number => world.registry.keyspace.range({ from: '/', to: '0' }, 10).revision;
    const before = revision();
    world.run(5_000);
    assert.equal(revision(), before, 'the record is not written again and again');
  });

  test('keeps nothing that an owner gives it who has not heard that it is out', () => {
    const world = running('late owner');
    const { host, id } = world.node('a');
    host.changed = () => {};
    world.write(0, (record) => record && { ...record, copies: [id], inSync: [{ node: id, generation: 1 }] });
    world.until('b has dropped it', () => world.node('b').events.some(({ kind }) => kind === 'dropped'));
    const rows = world.rows('b');
    world
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => {});
    world.run(900);
    assert.equal(world.rows('b'), rows);
    world.until('its owner finds out', () => world.node('a').host.metrics().waiting === 0);
    assert.equal(world.inSyncNames(), 'a');
    assert.equal(world.rows('b'), rows);
  });
});
