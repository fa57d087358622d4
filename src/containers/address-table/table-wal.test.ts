import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type Done, failure, success } from '../../base/errors.ts';
import { clusterKey, keyRanges } from '../../registry/cluster-keys.ts';
import {
  TableHarness,
  node,
  poolRecord,
  putContainer,
  putNumber,
  remove,
  setEvery,
} from '../../../test/support/containers/table-harness.ts';
import { TableWal } from './table-wal.ts';

const log = `wal/domain_table.1.0.${node(200)}.bin`;
const index = `wal/domain_table.${node(200)}.index`;

describe('the write-ahead log of the table', () => {
  test('lets a node route before the registry is reachable, but not serve', () => {
    let isCut = false;
    const harness = new TableHarness({ isCut: () => isCut });
    harness.createPool('p');
    harness.start();
    const { version } = harness.table;
    const hash = harness.table.hash();
    isCut = true;
    harness.restart('lost');
    assert.equal(harness.owners(), '1 2 1 2 1 2 1 2');
    assert.equal(harness.table.version, version);
    assert.equal(harness.table.hash(), hash);
    assert.deepEqual(harness.at().log, []);
    assert.equal(harness.table.isConfirmed, false);
    // Meanwhile the containers have other owners; with the first load the node learns of all of them.
    harness.put(putContainer('p', 0, node(9)));
    harness.at().registry.resume();
    harness.run(1_000);
    assert.equal(harness.table.isConfirmed, true);
    assert.equal(harness.owners(), '9 2 1 2 1 2 1 2');
    assert.equal(harness.at().changes.length, 8);
    assert.equal(harness.at().log.at(-1), 'confirmed');
  });

  test('has every change before it is reported, whenever the power fails', () => {
    let isCut = false;
    let checked = 0;
    for (let round = 0; round < 200; round++) {
      isCut = false;
      const harness = new TableHarness({ seed: `power ${round}`, isCut: () => isCut });
      const random = harness.world.random.fork('power');
      harness.createPool('p');
      harness.createPool('q', { major: 2, containers: 3 }, [node(3)]);
      harness.world.startAll();
      const writes = setEvery(harness, 0.3, 60, (write) => {
        const pool = random.pick(['p', 'q']);
        harness.put(putContainer(pool, random.below(3), node(1 + random.below(3)), write));
      });
      harness.run(random.between(0, 25));
      const reported = new Map<string, number>();
      for (const { pool, container, revision } of harness.at().changes)
        reported.set(`${pool.name}/${container}`, revision);
      isCut = true;
      harness.restart('lost');
      const { table } = harness.at();
      for (const [name, revision] of reported) {
        const [pool, container] = name.split('/') as [string, string];
        const known = table.pool(pool);
        assert.ok(known !== undefined && table.versionOf(known, Number(container)) >= revision, `${round} ${name}`);
        checked += 1;
      }
      assert.ok(writes() > 0 || reported.size === 0);
      assert.ok(!harness.at().events.some(({ kind }) => kind === 'table.damaged'), String(round));
    }
    assert.ok(checked > 500, String(checked));
  });

  test('continues after a torn end', () => {
    const harness = new TableHarness();
    harness.createPool('p');
    harness.start();
    harness.put(putContainer('p', 0, node(2), 5));
    harness.run(50);
    const file = harness.world.host('a').disk.files.get(log);
    assert.ok(file !== undefined);
    file.append(new Uint8Array(17).fill(1));
    file.sync();
    harness.restart('kept');
    harness.put(putContainer('p', 1, node(1), 6));
    harness.run(50);
    harness.restart('kept');
    assert.equal(harness.owners(), '2 1 1 2 1 2 1 2');
    assert.equal(file.sizeBytes % 40, 0);
    assert.deepEqual(
      harness.at().events.map(({ kind }) => kind),
      ['table.confirmed'],
    );
  });

  test('that is damaged is reported, not used, and rebuilt', () => {
    for (const path of [log, index]) {
      let isCut = false;
      const harness = new TableHarness({ isCut: () => isCut });
      harness.createPool('p');
      harness.start();
      const file = harness.world.host('a').disk.files.get(path);
      assert.ok(file !== undefined);
      const bytes = file.bytes();
      bytes[140] = (bytes[140] as number) ^ 1;
      file.replace(bytes);
      isCut = true;
      harness.restart('kept');
      assert.equal(harness.owners(), path === log ? '- - - - - - - -' : 'no pool');
      assert.deepEqual(
        harness.at().events.map((event) => (event.kind === 'table.damaged' ? [event.file, event.code] : event.kind)),
        [[path, 'STORE_CORRUPT']],
      );
      harness.at().registry.resume();
      harness.run(1_000);
      assert.equal(harness.owners(), '1 2 1 2 1 2 1 2');
      harness.restart('lost');
      assert.equal(harness.owners(), '1 2 1 2 1 2 1 2');
      assert.ok(!harness.at().events.some(({ kind }) => kind === 'table.damaged'));
    }
  });

  test('on a failing disk delays all changes of the table until the disk works again', () => {
    const harness = new TableHarness();
    harness.createPool('p');
    harness.start();
    const { disk } = harness.world.host('a');
    disk.change({ full: true });
    harness.at().log.length = 0;
    for (let i = 0; i < 20; i++) harness.put(putContainer('p', i % 4, node(7), i));
    harness.run(5_000);
    assert.equal(harness.owners(), '1 2 1 2 1 2 1 2');
    assert.deepEqual(harness.at().log, []);
    assert.deepEqual(
      harness.at().events.map(({ kind }) => kind),
      ['table.confirmed', 'table.log-failing'],
    );
    disk.change({ full: false });
    harness.run(6_000);
    assert.equal(harness.owners(), '7 7 7 7 1 2 1 2');
    assert.equal(harness.at().log.length, 20);
    assert.equal(harness.at().events.at(-1)?.kind, 'table.log-works');
    harness.restart('lost');
    assert.equal(harness.owners(), '7 7 7 7 1 2 1 2');
  });

  test('on a disk that is too slow makes the table load everything again later', () => {
    const harness = new TableHarness({ options: { queuedChangesMax: 1_000 } });
    harness.createPool('p', { containers: 200 });
    harness.start();
    const { disk } = harness.world.host('a');
    disk.change({ full: true });
    for (let i = 0; i < 12; i++) {
      harness.put(...Array.from({ length: 100 }, (_, c) => putContainer('p', c, node(5), i)));
    }
    harness.run(100);
    disk.change({ full: false });
    harness.run(10_000);
    assert.equal(
      harness
        .owners()
        .split(' ')
        .filter((owner) => owner === '5').length,
      100,
    );
    assert.ok(harness.at().events.some(({ kind }) => kind === 'table.repairing'));
  });

  test('is compacted', () => {
    const harness = new TableHarness();
    harness.createPool('p', { containers: 100 });
    harness.start();
    const file = () => harness.world.host('a').disk.files.get(log)?.sizeBytes ?? 0;
    let largest = 0;
    for (let round = 0; round < 400; round++) {
      harness.put(...Array.from({ length: 100 }, (_, c) => putContainer('p', c, node(1 + (round % 2)), round)));
      harness.run(5);
      largest = Math.max(largest, file());
    }
    assert.ok(largest > 1_000_000 && largest <= 1_048_576, String(largest));
    assert.ok(file() < largest);
    const owners = harness.owners();
    harness.restart('lost');
    assert.equal(harness.owners(), owners);
  });

  test('of a pool that was deleted while the node was down is removed, and the pool stays deleted', () => {
    let isCut = false;
    const harness = new TableHarness({ isCut: () => isCut });
    harness.createPool('p');
    harness.createPool('q', { major: 2, containers: 1 });
    harness.start();
    harness.crash();
    harness.put(
      { kind: 'delete', range: keyRanges.containersOf('p') },
      remove(clusterKey({ kind: 'pool', pool: 'p' })),
    );
    isCut = true;
    harness.world.start('a');
    harness.run(100);
    assert.equal(harness.owners(), '1 2 1 2 1 2 1 2');
    harness.at().registry.resume();
    harness.run(1_000);
    assert.equal(harness.table.pool('p'), undefined);
    assert.deepEqual(harness.files(), [log.replace('.1.0.', '.2.0.'), index].toSorted());
    assert.deepEqual(
      harness.at().log.filter((word) => word.startsWith('p')),
      [...Array.from({ length: 8 }, (_, i) => `p/${i} -`), 'p gone 1'],
    );
  });

  test('does not restore a container that was deleted while the node was cut off', () => {
    let isCut = false;
    const harness = new TableHarness({ isCut: () => isCut });
    harness.createPool('p');
    harness.start();
    harness.crash();
    harness.put(remove(clusterKey({ kind: 'container', pool: 'p', container: '3' })));
    isCut = true;
    harness.world.start('a');
    harness.run(100);
    assert.equal(harness.owners(), '1 2 1 2 1 2 1 2');
    harness.at().registry.resume();
    harness.run(1_000);
    assert.equal(harness.owners(), '1 2 1 - 1 2 1 2');
    assert.ok(harness.at().log.includes('p/3 -'));
    harness.restart('lost');
    assert.equal(harness.owners(), '1 2 1 - 1 2 1 2');
  });

  test('is rewritten after a failed append, because its end is unknown', () => {
    const harness = new TableHarness().start();
    const calls: string[] = [];
    let isBroken = false;
    const ended = (call: string, done: Done<void>): void => {
      calls.push(call);
      const outcome = isBroken && call === 'sync' ? failure('STORE_FAILED') : success(undefined);
      harness.world.timeline.after(1, () => done(outcome));
    };
    const tableLog = new TableWal({
      ...{ clock: harness.at().ports.clock, self: node(1), emit: ({ kind }) => calls.push(kind) },
      files: {
        append: (_path, _bytes, done) => ended('append', done),
        sync: (_path, done) => ended('sync', done),
        replace: (_path, _bytes, done) => ended('replace', done),
        remove: (_path, done) => ended('remove', done),
      },
    });
    const pool = { pool: poolRecord, live: 1, added: new Uint8Array(40), allRecords: () => new Uint8Array(40) };
    const group = { index: undefined, pools: [pool] };
    tableLog.markValid(poolRecord, 40);
    isBroken = true;
    tableLog.write(group, () => calls.push('written'));
    harness.run(10_000);
    isBroken = false;
    tableLog.write(group, () => calls.push('written'));
    harness.run(100);
    assert.deepEqual(calls, [
      ...['append', 'sync', 'table.log-failing', 'replace', 'table.log-works', 'written'],
      ...['append', 'sync', 'written'],
    ]);
  });

  test('is rewritten when node numbers have changed', () => {
    let isCut = false;
    const harness = new TableHarness({ isCut: () => isCut });
    harness.createPool('p');
    harness.start();
    harness.put(putNumber(node(1), 2), putNumber(node(2), 1));
    harness.run(50);
    isCut = true;
    harness.restart('lost');
    assert.equal(harness.owners(), '1 2 1 2 1 2 1 2');
  });
});
