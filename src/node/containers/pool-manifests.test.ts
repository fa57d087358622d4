import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';

import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakeFiles } from '../../../test/fakes/fake-files.ts';
import type { Done } from '../../base/errors.ts';
import type { KnownPool } from '../../containers/contract.ts';
import { PoolOperations, type CreatedPool } from '../../placement/operations/pool-operations.ts';
import type { PoolDescription, PoolRow } from '../../placement/operations/pool-views.ts';
import type { PoolRecord } from '../../placement/state/container-records.ts';
import { PoolManifests } from './pool-manifests.ts';

const record: PoolRecord = {
  ...{ major: 1, minor: 0, module: 'counter', moduleVersion: 3, containers: 4, copies: 2 },
  ...{ durability: 'copies', restart: true, params: { a: ['b # no comment', 1] }, state: 'active' },
};

/** One worker; `files` is its disk. */
class Worker {
  readonly restartFiles: PoolManifests;
  readonly events: string[] = [];
  readonly cluster: DrainTestCluster;
  readonly files: FakeFiles;

  constructor(cluster: DrainTestCluster, files: FakeFiles = new FakeFiles(cluster.clock)) {
    this.cluster = cluster;
    this.files = files;
    this.restartFiles = new PoolManifests({
      registry: cluster.registry,
      clock: cluster.clock,
      files: files.port,
      emit: ({ kind }) => this.events.push(kind),
    });
  }

  confirm(...pools: readonly KnownPool[]): this {
    for (const pool of pools) this.restartFiles.poolChanged(pool, false);
    this.restartFiles.onPoolsLoaded();
    this.cluster.run(100);
    return this;
  }

  get names(): readonly string[] {
    return this.files.names('restart');
  }
}

function pool(name: string, change: Partial<PoolRecord> = {}): KnownPool {
  return { name, record: { ...record, ...change } };
}

function ask<T>(cluster: DrainTestCluster, start: (done: Done<T>) => void): T {
  const outcome = cluster.await(start);
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
  return outcome.value;
}

function rows(cluster: DrainTestCluster): readonly PoolRow[] {
  return ask<readonly PoolRow[]>(cluster, (done) => new PoolOperations(cluster.registry, cluster.clock).list(done));
}

/** The disk of a worker of a cluster with these pools. */
function diskWith(cluster: DrainTestCluster, ...names: readonly string[]): FakeFiles {
  return new Worker(cluster).confirm(...names.map((name) => pool(name))).files;
}

test('a manifest exists as long as its pool, and only for pools with restart', () => {
  const cluster = startedCluster(1);
  const worker = new Worker(cluster).confirm(pool('a'), pool('b', { restart: false }));
  assert.deepEqual(worker.names, ['a.yaml']);
  assert.deepEqual(parse(worker.files.text('restart/a.yaml')), {
    compose: [
      {
        ...{ name: 'a', module: 'counter', containers: 4, copies: 2, durability: 'copies', restart: true },
        params: { a: ['b # no comment', 1] },
      },
    ],
  });
  worker.restartFiles.poolChanged(pool('c'), false);
  cluster.run(100);
  assert.deepEqual(worker.names, ['a.yaml', 'c.yaml']);
  worker.restartFiles.poolChanged(pool('a', { state: 'deleting' }), false);
  worker.restartFiles.poolChanged(pool('c'), true);
  cluster.run(100);
  assert.deepEqual(worker.names, []);
});

test('a failed write of a manifest is retried', () => {
  const cluster = startedCluster(1);
  const worker = new Worker(cluster).confirm();
  worker.files.fails = true;
  worker.restartFiles.poolChanged(pool('a'), false);
  cluster.run(3_000);
  assert.deepEqual(worker.names, []);
  worker.files.fails = false;
  cluster.run(2_000);
  assert.deepEqual(worker.names, ['a.yaml']);
});

test('a registry that never had a pool gets those of the manifests, once and all together', () => {
  const before = startedCluster(1);
  const files = diskWith(before, 'a', 'b');
  const cluster = startedCluster(1);
  const workers = [new Worker(cluster, copy(cluster, files)), new Worker(cluster, copy(cluster, files))];
  for (const worker of workers) worker.restartFiles.onPoolsLoaded();
  cluster.run(100);
  assert.deepEqual(
    rows(cluster).map((row) => [row.name, row.id, row.module, row.moduleVersion, row.restart, row.params]),
    [
      ['a', '1.0', 'counter', 0, true, record.params],
      ['b', '2.0', 'counter', 0, true, record.params],
    ],
  );
  assert.equal(workers.flatMap(({ events }) => events).filter((kind) => kind === 'restart.created').length, 1);
  const next = ask<CreatedPool>(cluster, (done) =>
    new PoolOperations(cluster.registry, cluster.clock).create({ name: 'c', module: 'kv', containers: 1 }, done),
  );
  assert.equal(next.id, '3.0');
});

test('the manifests stay while the table does not have the new pools yet', () => {
  const cluster = startedCluster(1);
  const worker = new Worker(cluster, diskWith(cluster, 'a')).confirm();
  assert.deepEqual(worker.events, ['restart.created']);
  assert.deepEqual(worker.names, ['a.yaml']);
});

test('deleted pools stay deleted, and their manifests are removed', () => {
  const cluster = startedCluster(1);
  const pools = new PoolOperations(cluster.registry, cluster.clock);
  ask<CreatedPool>(cluster, (done) => pools.create({ name: 'a', module: 'counter', containers: 1 }, done));
  ask<PoolDescription>(cluster, (done) => pools.delete('a', done));
  const worker = new Worker(cluster, diskWith(startedCluster(1), 'a', 'b'));
  const files = copy(cluster, worker.files);
  const late = new Worker(cluster, files).confirm();
  assert.deepEqual([late.names, late.events], [[], []]);
  assert.deepEqual(
    rows(cluster).map(({ name, state }) => [name, state]),
    [['a', 'deleting']],
  );
});

test('a read of the registry is retried, and files that are not manifests stay', () => {
  const cluster = startedCluster(1);
  const files = diskWith(cluster, 'a');
  files.content.set('restart/mine.yaml', new TextEncoder().encode('compose: []\n'));
  files.content.set('restart/notes.txt', new TextEncoder().encode('by hand'));
  cluster.registry.interrupt('NO_QUORUM');
  const worker = new Worker(cluster, files).confirm();
  assert.deepEqual(worker.events, ['restart.unreadable']);
  cluster.registry.resume();
  cluster.run(2_000);
  assert.deepEqual(worker.events, ['restart.unreadable', 'restart.created']);
  assert.deepEqual(worker.names, ['a.yaml', 'mine.yaml', 'notes.txt']);
});

/** The same content with the clock of another cluster. */
function copy(cluster: DrainTestCluster, files: FakeFiles): FakeFiles {
  const other = new FakeFiles(cluster.clock);
  for (const [path, bytes] of files.content) other.content.set(path, bytes);
  return other;
}
