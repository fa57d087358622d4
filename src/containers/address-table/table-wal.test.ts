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

describe('the log of the table', () => {
  test('lets a node route before it hears of the registry, and serves nothing before', () => {
    let isCut = false;
    const scene = new TableHarness({ isCut: () => isCut });
    scene.makePool('p');
    scene.start();
    const { version } = scene.table;
    const hash = scene.table.hash();
    isCut = true;
    scene.restart('lost');
    assert.equal(scene.owners(), '1 2 1 2 1 2 1 2');
    assert.equal(scene.table.version, version);
    assert.equal(scene.table.hash(), hash);
    assert.deepEqual(scene.at().words, []);
    assert.equal(scene.table.isConfirmed, false);
    // Meanwhile it has been given to others; when it hears of that, it hears of everything.
    scene.put(putContainer('p', 0, node(9)));
    scene.at().side.resume();
    scene.run(1_000);
    assert.equal(scene.table.isConfirmed, true);
    assert.equal(scene.owners(), '9 2 1 2 1 2 1 2');
    assert.equal(scene.at().changes.length, 8);
    assert.equal(scene.at().words.at(-1), 'confirmed');
  });

  test('has every change before anybody hears of it, at whatever instant the power fails', () => {
    let isCut = false;
    let checked = 0;
    for (let round = 0; round < 200; round++) {
      isCut = false;
      const scene = new TableHarness({ seed: `power ${round}`, isCut: () => isCut });
      const random = scene.world.random.fork('power');
      scene.makePool('p');
      scene.makePool('q', { major: 2, containers: 3 }, [node(3)]);
      scene.world.startAll();
      const writes = setEvery(scene, 0.3, 60, (write) => {
        const pool = random.pick(['p', 'q']);
        scene.put(putContainer(pool, random.below(3), node(1 + random.below(3)), write));
      });
      scene.run(random.between(0, 25));
      const told = new Map<string, number>();
      for (const { pool, container, revision } of scene.at().changes) told.set(`${pool.name}/${container}`, revision);
      isCut = true;
      scene.restart('lost');
      const { table } = scene.at();
      for (const [name, revision] of told) {
        const [pool, container] = name.split('/') as [string, string];
        const known = table.pool(pool);
        assert.ok(known !== undefined && table.versionOf(known, Number(container)) >= revision, `${round} ${name}`);
        checked += 1;
      }
      assert.ok(writes() > 0 || told.size === 0);
      assert.ok(!scene.at().events.some(({ kind }) => kind === 'table.damaged'), String(round));
    }
    assert.ok(checked > 500, String(checked));
  });

  test('goes on behind a torn end', () => {
    const scene = new TableHarness();
    scene.makePool('p');
    scene.start();
    scene.put(putContainer('p', 0, node(2), 5));
    scene.run(50);
    const file = scene.world.host('a').disk.files.get(log);
    assert.ok(file !== undefined);
    file.append(new Uint8Array(17).fill(1));
    file.sync();
    scene.restart('kept');
    scene.put(putContainer('p', 1, node(1), 6));
    scene.run(50);
    scene.restart('kept');
    assert.equal(scene.owners(), '2 1 1 2 1 2 1 2');
    assert.equal(file.sizeBytes % 40, 0);
    assert.deepEqual(
      scene.at().events.map(({ kind }) => kind),
      ['table.confirmed'],
    );
  });

  test('that is damaged is told of, never used, and built again', () => {
    for (const path of [log, index]) {
      let isCut = false;
      const scene = new TableHarness({ isCut: () => isCut });
      scene.makePool('p');
      scene.start();
      const file = scene.world.host('a').disk.files.get(path);
      assert.ok(file !== undefined);
      const bytes = file.bytes();
      bytes[140] = (bytes[140] as number) ^ 1;
      file.replace(bytes);
      isCut = true;
      scene.restart('kept');
      assert.equal(scene.owners(), path === log ? '- - - - - - - -' : 'no pool');
      assert.deepEqual(
        scene.at().events.map((event) => (event.kind === 'table.damaged' ? [event.file, event.code] : event.kind)),
        [[path, 'STORE_CORRUPT']],
      );
      scene.at().side.resume();
      scene.run(1_000);
      assert.equal(scene.owners(), '1 2 1 2 1 2 1 2');
      scene.restart('lost');
      assert.equal(scene.owners(), '1 2 1 2 1 2 1 2');
      assert.ok(!scene.at().events.some(({ kind }) => kind === 'table.damaged'));
    }
  });

  test('of a failing disk holds the table as it was, until it works again', () => {
    const scene = new TableHarness();
    scene.makePool('p');
    scene.start();
    const { disk } = scene.world.host('a');
    disk.change({ full: true });
    scene.at().words.length = 0;
    for (let i = 0; i < 20; i++) scene.put(putContainer('p', i % 4, node(7), i));
    scene.run(5_000);
    assert.equal(scene.owners(), '1 2 1 2 1 2 1 2');
    assert.deepEqual(scene.at().words, []);
    assert.deepEqual(
      scene.at().events.map(({ kind }) => kind),
      ['table.confirmed', 'table.log-failing'],
    );
    disk.change({ full: false });
    scene.run(6_000);
    assert.equal(scene.owners(), '7 7 7 7 1 2 1 2');
    assert.equal(scene.at().words.length, 20);
    assert.equal(scene.at().events.at(-1)?.kind, 'table.log-works');
    scene.restart('lost');
    assert.equal(scene.owners(), '7 7 7 7 1 2 1 2');
  });

  test('that cannot keep up with what is to be written reads everything again later', () => {
    const scene = new TableHarness({ options: { queuedChangesMax: 1_000 } });
    scene.makePool('p', { containers: 200 });
    scene.start();
    const { disk } = scene.world.host('a');
    disk.change({ full: true });
    for (let i = 0; i < 12; i++) {
      scene.put(...Array.from({ length: 100 }, (_, c) => putContainer('p', c, node(5), i)));
    }
    scene.run(100);
    disk.change({ full: false });
    scene.run(10_000);
    assert.equal(
      scene
        .owners()
        .split(' ')
        .filter((owner) => owner === '5').length,
      100,
    );
    assert.ok(scene.at().events.some(({ kind }) => kind === 'table.repairing'));
  });

  test('stays small, whatever happens', () => {
    const scene = new TableHarness();
    scene.makePool('p', { containers: 100 });
    scene.start();
    const file = () => scene.world.host('a').disk.files.get(log)?.sizeBytes ?? 0;
    let largest = 0;
    for (let round = 0; round < 400; round++) {
      scene.put(...Array.from({ length: 100 }, (_, c) => putContainer('p', c, node(1 + (round % 2)), round)));
      scene.run(5);
      largest = Math.max(largest, file());
    }
    assert.ok(largest > 1_000_000 && largest <= 1_048_576, String(largest));
    assert.ok(file() < largest);
    const owners = scene.owners();
    scene.restart('lost');
    assert.equal(scene.owners(), owners);
  });

  test('of a pool that was deleted while the node was down is removed, and the pool stays deleted', () => {
    let isCut = false;
    const scene = new TableHarness({ isCut: () => isCut });
    scene.makePool('p');
    scene.makePool('q', { major: 2, containers: 1 });
    scene.start();
    scene.crash();
    scene.put({ kind: 'delete', range: keyRanges.containersOf('p') }, remove(clusterKey({ kind: 'pool', pool: 'p' })));
    isCut = true;
    scene.world.start('a');
    scene.run(100);
    assert.equal(scene.owners(), '1 2 1 2 1 2 1 2');
    scene.at().side.resume();
    scene.run(1_000);
    assert.equal(scene.table.pool('p'), undefined);
    assert.deepEqual(scene.files(), [log.replace('.1.0.', '.2.0.'), index].toSorted());
    assert.deepEqual(
      scene.at().words.filter((word) => word.startsWith('p')),
      [...Array.from({ length: 8 }, (_, i) => `p/${i} -`), 'p gone 1'],
    );
  });

  test('does not bring back a container that was deleted while nobody listened', () => {
    let isCut = false;
    const scene = new TableHarness({ isCut: () => isCut });
    scene.makePool('p');
    scene.start();
    scene.crash();
    scene.put(remove(clusterKey({ kind: 'container', pool: 'p', container: '3' })));
    isCut = true;
    scene.world.start('a');
    scene.run(100);
    assert.equal(scene.owners(), '1 2 1 2 1 2 1 2');
    scene.at().side.resume();
    scene.run(1_000);
    assert.equal(scene.owners(), '1 2 1 - 1 2 1 2');
    assert.ok(scene.at().words.includes('p/3 -'));
    scene.restart('lost');
    assert.equal(scene.owners(), '1 2 1 - 1 2 1 2');
  });

  test('is written as a whole after a failure, because nobody knows how it ends', () => {
    const scene = new TableHarness().start();
    const calls: string[] = [];
    let isBroken = false;
    const ended = (call: string, done: Done<void>): void => {
      calls.push(call);
      const outcome = isBroken && call === 'sync' ? failure('STORE_FAILED') : success(undefined);
      scene.world.timeline.after(1, () => done(outcome));
    };
    const tableLog = new TableWal({
      ...{ clock: scene.at().ports.clock, self: node(1), tell: ({ kind }) => calls.push(kind) },
      files: {
        append: (_path, _bytes, done) => ended('append', done),
        sync: (_path, done) => ended('sync', done),
        replace: (_path, _bytes, done) => ended('replace', done),
        remove: (_path, done) => ended('remove', done),
      },
    });
    const pool = { pool: poolRecord, live: 1, added: new Uint8Array(40), whole: () => new Uint8Array(40) };
    const group = { index: undefined, pools: [pool] };
    tableLog.markGood(poolRecord, 40);
    isBroken = true;
    tableLog.write(group, () => calls.push('written'));
    scene.run(10_000);
    isBroken = false;
    tableLog.write(group, () => calls.push('written'));
    scene.run(100);
    assert.deepEqual(calls, [
      ...['append', 'sync', 'table.log-failing', 'replace', 'table.log-works', 'written'],
      ...['append', 'sync', 'written'],
    ]);
  });

  test('is written anew when the numbers of nodes have changed', () => {
    let isCut = false;
    const scene = new TableHarness({ isCut: () => isCut });
    scene.makePool('p');
    scene.start();
    scene.put(putNumber(node(1), 2), putNumber(node(2), 1));
    scene.run(50);
    isCut = true;
    scene.restart('lost');
    assert.equal(scene.owners(), '1 2 1 2 1 2 1 2');
  });
});
