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
  test('equals the registry, and reports changes in registry order', () => {
    const harness = new TableHarness();
    harness.createPool('p', { containers: 3 });
    harness.start();
    assert.equal(harness.owners(), '1 2 1');
    assert.deepEqual(harness.at().log, ['p is 1', 'p/0 1', 'p/1 2', 'p/2 1', 'confirmed']);
    harness.at().log.length = 0;
    harness.put(putContainer('p', 2, node(2)), putContainer('p', 0, undefined));
    harness.put(putContainer('p', 1, node(1)));
    harness.run(50);
    assert.equal(harness.owners(), '- 1 2');
    assert.deepEqual(harness.at().log, ['p/2 2', 'p/0 -', 'p/1 1']);
    assert.equal(harness.table.versionOf(harness.pool(), 1), harness.registry.keyspace.revision);
    assert.equal(harness.table.version, harness.registry.keyspace.revision);
    assert.equal(harness.table.poolByNumber(1), harness.pool());
    assert.deepEqual(harness.table.pools(), [harness.pool()]);
  });

  test('is loaded page by page and then updated without a gap', () => {
    const harness = new TableHarness();
    harness.createPool('p', { containers: 2_500 });
    harness.world.startAll();
    const timer = setEvery(harness, 0.2, 40, (round) => harness.put(putContainer('p', round * 60, node(2), 2)));
    harness.run(2_000);
    assert.equal(timer(), 40);
    const pool = harness.pool();
    for (let i = 0; i < 2_500; i++) {
      assert.equal(harness.table.ownerOf(pool, i), i % 60 === 0 && i < 2_400 ? node(2) : node((i % 2) + 1), String(i));
    }
    assert.equal(harness.at().log.filter((word) => word === 'confirmed').length, 1);
  });

  test('ignores containers beyond the size of their pool, and unreadable records', () => {
    const harness = new TableHarness();
    harness.createPool('p', { containers: 2 });
    harness.put(putContainer('p', 2, node(1)), putContainer('p', 7_000_000, node(1)));
    const name = clusterKey({ kind: 'container', pool: 'p', container: '01' });
    harness.put({ kind: 'put', key: name, value: new TextEncoder().encode('{}') });
    harness.start();
    assert.equal(harness.owners(), '1 2');
    const key = clusterKey({ kind: 'container', pool: 'p', container: '1' });
    harness.put({ kind: 'put', key, value: new TextEncoder().encode('{"owner":7}') });
    harness.put({ kind: 'put', key: clusterKey({ kind: 'pool', pool: 'p' }), value: new TextEncoder().encode('{}') });
    harness.run(50);
    // The known entries stay, even when everything is loaded again.
    assert.equal(harness.owners(), '1 2');
    harness.restart();
    assert.equal(harness.owners(), '1 2');
  });

  test('removes a deleted pool with its containers and its log, and distinguishes a new pool of that name', () => {
    const harness = new TableHarness();
    harness.createPool('p', { containers: 2 });
    harness.start();
    const before = harness.pool();
    assert.ok(harness.files().includes(log));
    harness.at().log.length = 0;
    harness.put(remove(clusterKey({ kind: 'pool', pool: 'p' })), {
      kind: 'delete',
      range: keyRanges.containersOf('p'),
    });
    harness.run(50);
    assert.deepEqual(harness.at().log, ['p/0 -', 'p/1 -', 'p gone 1']);
    assert.equal(harness.table.pool('p'), undefined);
    assert.equal(harness.table.ownerOf(before, 0), undefined);
    assert.deepEqual(harness.files(), [index]);
    harness.createPool('p', { containers: 2, major: 2 }, [node(2)]);
    harness.run(50);
    assert.equal(harness.owners(), '2 2');
    assert.equal(harness.table.ownerOf(before, 0), undefined);
  });

  test('loads the containers of a pool that arrives after them', () => {
    const harness = new TableHarness().start();
    harness.put(putContainer('p', 0, node(1)));
    harness.run(50);
    harness.put(putPool('p', { ...poolRecord, containers: 1 }));
    harness.run(50);
    assert.equal(harness.owners(), '1');
    // Within one transaction the order does not matter.
    harness.put(putContainer('q', 0, node(2)), putPool('q', { ...poolRecord, major: 2, containers: 1 }));
    harness.run(50);
    assert.equal(harness.owners('q'), '2');
    assert.deepEqual(
      harness.at().events.map(({ kind }) => kind),
      ['table.confirmed', 'table.repairing'],
    );
  });

  test('calls the watcher of a container until it is cancelled', () => {
    const harness = new TableHarness();
    harness.createPool('p');
    harness.start();
    const notified: string[] = [];
    const cancel = harness.table.watchOwner(harness.pool(), 3, () => notified.push('3'));
    harness.table.watchOwner(harness.pool(), 4, () => notified.push('4'));
    harness.put(putContainer('p', 3, node(1)), putContainer('p', 5, node(1)));
    harness.run(50);
    assert.deepEqual(notified, ['3']);
    cancel();
    cancel();
    harness.put(putContainer('p', 3, node(2)), putContainer('p', 4, node(2)));
    harness.run(50);
    assert.deepEqual(notified, ['3', '4']);
  });

  test('has equal hashes on all nodes with equal entries, and another hash if any entry differs', () => {
    const harness = new TableHarness({ names: ['a', 'b'] });
    harness.world.start('a');
    harness.createPool('q', { major: 2 }, [node(3)]);
    harness.createPool('p', {}, [node(2), node(1)]);
    harness.run(100);
    for (let i = 0; i < 8; i++) harness.put(putContainer('p', 7 - i, node(1 + (i % 2)), i));
    harness.run(100);
    const hash = harness.at('a').table.hash();
    harness.put(putContainer('p', 0, node(1), 77));
    // b learns of the deletion only from the marker that it leaves behind.
    harness.put(...deletePoolTransaction(new Uint8Array(), { name: 'q', modRevision: 0 }).then);
    harness.world.start('b');
    harness.run(100);
    assert.equal(harness.at('b').table.pool('q'), undefined);
    assert.equal(harness.at('a').table.hash(), harness.at('b').table.hash());
    assert.equal(harness.at('a').table.version, harness.at('b').table.version);
    assert.notEqual(harness.at('a').table.hash(), hash);
    assert.match(hash, /^[0-9a-f]{16}$/);
  });
});

describe('an owner hint', () => {
  test('is used if it is newer, until the registry reports the change, and never stored', () => {
    let isCut = false;
    const harness = new TableHarness({ isCut: () => isCut });
    harness.createPool('p');
    harness.start();
    const notified: string[] = [];
    const { table } = harness;
    const pool = harness.pool();
    table.watchOwner(pool, 0, () => notified.push('0'));
    table.addOwnerHint(pool, 0, node(4), table.versionOf(pool, 0));
    table.addOwnerHint(pool, 0, node(4), table.version);
    table.addOwnerHint(pool, 99, node(4), 1_000_000);
    assert.equal(table.ownerOf(pool, 0), node(1));
    assert.deepEqual(notified, []);
    const hash = table.hash();
    table.addOwnerHint(pool, 0, node(4), table.version + 1);
    assert.equal(table.ownerOf(pool, 0), node(4));
    assert.equal(table.hash(), hash);
    assert.deepEqual(notified, ['0']);
    table.addOwnerHint(pool, 0, node(5), table.version + 1);
    assert.equal(table.ownerOf(pool, 0), node(4));
    harness.put(putNumber(node(6), 6), putContainer('p', 0, node(6), 3));
    harness.run(50);
    assert.equal(table.ownerOf(pool, 0), node(6));
    isCut = true;
    harness.restart('lost');
    assert.equal(harness.owners(), '6 2 1 2 1 2 1 2');
  });

  test('causes a reload of the table if the registry does not report the change', () => {
    let isCutOff = false;
    const harness = new TableHarness({
      names: ['a', 'b'],
      wrap: (registry) => ({
        range: (...args) => registry.range(...args),
        watch: (range, from, events) =>
          registry.watch(range, from, {
            ...events,
            changed: (changes, revision) => {
              if (!isCutOff) events.changed(changes, revision);
            },
          }),
      }),
    });
    harness.createPool('p');
    harness.start();
    isCutOff = true;
    harness.crash('lost', 'b');
    harness.put(putContainer('p', 0, node(8), 4));
    harness.run(100);
    harness.world.start('b');
    harness.run(100);
    const { table } = harness.at('b');
    assert.equal(harness.owners('p', 'a'), '1 2 1 2 1 2 1 2');
    assert.equal(table.digestBytes().length, 16);
    harness.at('a').table.digestReceived(table.digestBytes());
    harness.run(1_900);
    assert.equal(harness.owners('p', 'a'), '1 2 1 2 1 2 1 2');
    harness.run(300);
    assert.equal(harness.owners('p', 'a'), '8 2 1 2 1 2 1 2');
    assert.equal(harness.at('a').table.hash(), table.hash());
  });

  test('that is wrong does not cause repeated reloads', () => {
    const harness = new TableHarness();
    harness.createPool('p');
    harness.start();
    const wrong = new Uint8Array(16).fill(9);
    wrong.set([0, 0, 1], 0);
    for (let i = 0; i < 600; i++) {
      harness.table.digestReceived(wrong);
      harness.table.digestReceived(new Uint8Array(3));
      harness.table.digestReceived(new Uint8Array(16).fill(255));
      harness.table.digestReceived(harness.table.digestBytes());
      harness.run(1_000);
    }
    const repairs = harness.at().events.filter(({ kind }) => kind === 'table.repairing').length;
    assert.ok(repairs >= 3 && repairs <= 8, String(repairs));
  });
});
