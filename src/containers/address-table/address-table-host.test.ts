import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { clusterKey, keyRanges } from '../../registry/cluster-keys.ts';
import { deletePoolTransaction } from '../../placement/leader/placement-transactions.ts';
import {
  TableHarness,
  node,
  poolRecord,
  putContainer,
  putNumber,
  putPool,
  remove,
  setEvery,
} from '../../../test/support/containers/table-harness.ts';

const log = `wal/domain_table.1.0.${node(200)}.bin`;
const index = `wal/domain_table.${node(200)}.index`;

describe('the address table', () => {
  test('says what the registry says, and tells of everything in its order', () => {
    const scene = new TableHarness();
    scene.makePool('p', { containers: 3 });
    scene.start();
    assert.equal(scene.owners(), '1 2 1');
    assert.deepEqual(scene.at().words, ['p is 1', 'p/0 1', 'p/1 2', 'p/2 1', 'confirmed']);
    scene.at().words.length = 0;
    scene.put(putContainer('p', 2, node(2)), putContainer('p', 0, undefined));
    scene.put(putContainer('p', 1, node(1)));
    scene.run(50);
    assert.equal(scene.owners(), '- 1 2');
    assert.deepEqual(scene.at().words, ['p/2 2', 'p/0 -', 'p/1 1']);
    assert.equal(scene.table.versionOf(scene.pool(), 1), scene.registry.keyspace.revision);
    assert.equal(scene.table.version, scene.registry.keyspace.revision);
    assert.equal(scene.table.poolByNumber(1), scene.pool());
    assert.deepEqual(scene.table.pools(), [scene.pool()]);
  });

  test('is read page by page and followed without a gap', () => {
    const scene = new TableHarness();
    scene.makePool('p', { containers: 2_500 });
    scene.world.startAll();
    const timer = setEvery(scene, 0.2, 40, (round) => scene.put(putContainer('p', round * 60, node(2), 2)));
    scene.run(2_000);
    assert.equal(timer(), 40);
    const pool = scene.pool();
    for (let i = 0; i < 2_500; i++) {
      assert.equal(scene.table.ownerOf(pool, i), i % 60 === 0 && i < 2_400 ? node(2) : node((i % 2) + 1), String(i));
    }
    assert.equal(scene.at().words.filter((word) => word === 'confirmed').length, 1);
  });

  test('knows nothing of containers that a pool cannot have, nor of records that nobody can read', () => {
    const scene = new TableHarness();
    scene.makePool('p', { containers: 2 });
    scene.put(putContainer('p', 2, node(1)), putContainer('p', 7_000_000, node(1)));
    const name = clusterKey({ kind: 'container', pool: 'p', container: '01' });
    scene.put({ kind: 'put', key: name, value: new TextEncoder().encode('{}') });
    scene.start();
    assert.equal(scene.owners(), '1 2');
    const key = clusterKey({ kind: 'container', pool: 'p', container: '1' });
    scene.put({ kind: 'put', key, value: new TextEncoder().encode('{"owner":7}') });
    scene.put({ kind: 'put', key: clusterKey({ kind: 'pool', pool: 'p' }), value: new TextEncoder().encode('{}') });
    scene.run(50);
    // What was known of them stays, also when everything is read again.
    assert.equal(scene.owners(), '1 2');
    scene.restart();
    assert.equal(scene.owners(), '1 2');
  });

  test('forgets a pool with its containers and its log, and takes another one of that name for what it is', () => {
    const scene = new TableHarness();
    scene.makePool('p', { containers: 2 });
    scene.start();
    const before = scene.pool();
    assert.ok(scene.files().includes(log));
    scene.at().words.length = 0;
    scene.put(remove(clusterKey({ kind: 'pool', pool: 'p' })), { kind: 'delete', range: keyRanges.containersOf('p') });
    scene.run(50);
    assert.deepEqual(scene.at().words, ['p/0 -', 'p/1 -', 'p gone 1']);
    assert.equal(scene.table.pool('p'), undefined);
    assert.equal(scene.table.ownerOf(before, 0), undefined);
    assert.deepEqual(scene.files(), [index]);
    scene.makePool('p', { containers: 2, major: 2 }, [node(2)]);
    scene.run(50);
    assert.equal(scene.owners(), '2 2');
    assert.equal(scene.table.ownerOf(before, 0), undefined);
  });

  test('finds the containers of a pool that came after them', () => {
    const scene = new TableHarness().start();
    scene.put(putContainer('p', 0, node(1)));
    scene.run(50);
    scene.put(putPool('p', { ...poolRecord, containers: 1 }));
    scene.run(50);
    assert.equal(scene.owners(), '1');
    // In one transaction the order does not matter.
    scene.put(putContainer('q', 0, node(2)), putPool('q', { ...poolRecord, major: 2, containers: 1 }));
    scene.run(50);
    assert.equal(scene.owners('q'), '2');
    assert.deepEqual(
      scene.at().events.map(({ kind }) => kind),
      ['table.confirmed', 'table.repairing'],
    );
  });

  test('tells whoever waits for one container, until it is cancelled', () => {
    const scene = new TableHarness();
    scene.makePool('p');
    scene.start();
    const told: string[] = [];
    const cancel = scene.table.watchOwner(scene.pool(), 3, () => told.push('3'));
    scene.table.watchOwner(scene.pool(), 4, () => told.push('4'));
    scene.put(putContainer('p', 3, node(1)), putContainer('p', 5, node(1)));
    scene.run(50);
    assert.deepEqual(told, ['3']);
    cancel();
    cancel();
    scene.put(putContainer('p', 3, node(2)), putContainer('p', 4, node(2)));
    scene.run(50);
    assert.deepEqual(told, ['3', '4']);
  });

  test('has the same hash wherever it came about, and another one when anything differs', () => {
    const scene = new TableHarness({ names: ['a', 'b'] });
    scene.world.start('a');
    scene.makePool('q', { major: 2 }, [node(3)]);
    scene.makePool('p', {}, [node(2), node(1)]);
    scene.run(100);
    for (let i = 0; i < 8; i++) scene.put(putContainer('p', 7 - i, node(1 + (i % 2)), i));
    scene.run(100);
    const hash = scene.at('a').table.hash();
    scene.put(putContainer('p', 0, node(1), 77));
    // Nothing but what the deletion leaves behind tells b of it.
    scene.put(...deletePoolTransaction(new Uint8Array(), { name: 'q', modRevision: 0 }).then);
    scene.world.start('b');
    scene.run(100);
    assert.equal(scene.at('b').table.pool('q'), undefined);
    assert.equal(scene.at('a').table.hash(), scene.at('b').table.hash());
    assert.equal(scene.at('a').table.version, scene.at('b').table.version);
    assert.notEqual(scene.at('a').table.hash(), hash);
    assert.match(hash, /^[0-9a-f]{16}$/);
  });
});

describe('what others say about the table', () => {
  test('is believed if it is newer, until the registry says so, and never stored', () => {
    let isCut = false;
    const scene = new TableHarness({ isCut: () => isCut });
    scene.makePool('p');
    scene.start();
    const told: string[] = [];
    const { table } = scene;
    const pool = scene.pool();
    table.watchOwner(pool, 0, () => told.push('0'));
    table.addOwnerHint(pool, 0, node(4), table.versionOf(pool, 0));
    table.addOwnerHint(pool, 0, node(4), table.version);
    table.addOwnerHint(pool, 99, node(4), 1_000_000);
    assert.equal(table.ownerOf(pool, 0), node(1));
    assert.deepEqual(told, []);
    const hash = table.hash();
    table.addOwnerHint(pool, 0, node(4), table.version + 1);
    assert.equal(table.ownerOf(pool, 0), node(4));
    assert.equal(table.hash(), hash);
    assert.deepEqual(told, ['0']);
    table.addOwnerHint(pool, 0, node(5), table.version + 1);
    assert.equal(table.ownerOf(pool, 0), node(4));
    scene.put(putNumber(node(6), 6), putContainer('p', 0, node(6), 3));
    scene.run(50);
    assert.equal(table.ownerOf(pool, 0), node(6));
    isCut = true;
    scene.restart('lost');
    assert.equal(scene.owners(), '6 2 1 2 1 2 1 2');
  });

  test('makes it read everything again when the news does not come', () => {
    let isDeaf = false;
    const scene = new TableHarness({
      names: ['a', 'b'],
      wrap: (side) => ({
        range: (...args) => side.range(...args),
        watch: (range, from, events) =>
          side.watch(range, from, {
            ...events,
            changed: (changes, revision) => {
              if (!isDeaf) events.changed(changes, revision);
            },
          }),
      }),
    });
    scene.makePool('p');
    scene.start();
    isDeaf = true;
    scene.crash('lost', 'b');
    scene.put(putContainer('p', 0, node(8), 4));
    scene.run(100);
    scene.world.start('b');
    scene.run(100);
    const { table } = scene.at('b');
    assert.equal(scene.owners('p', 'a'), '1 2 1 2 1 2 1 2');
    assert.equal(table.digestBytes().length, 16);
    scene.at('a').table.digestReceived(table.digestBytes());
    scene.run(1_900);
    assert.equal(scene.owners('p', 'a'), '1 2 1 2 1 2 1 2');
    scene.run(300);
    assert.equal(scene.owners('p', 'a'), '8 2 1 2 1 2 1 2');
    assert.equal(scene.at('a').table.hash(), table.hash());
  });

  test('does not make it read again and again for somebody who is wrong', () => {
    const scene = new TableHarness();
    scene.makePool('p');
    scene.start();
    const wrong = new Uint8Array(16).fill(9);
    wrong.set([0, 0, 1], 0);
    for (let i = 0; i < 600; i++) {
      scene.table.digestReceived(wrong);
      scene.table.digestReceived(new Uint8Array(3));
      scene.table.digestReceived(new Uint8Array(16).fill(255));
      scene.table.digestReceived(scene.table.digestBytes());
      scene.run(1_000);
    }
    const repairs = scene.at().events.filter(({ kind }) => kind === 'table.repairing').length;
    assert.ok(repairs >= 3 && repairs <= 8, String(repairs));
  });
});
