import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import type { Done, Outcome } from '../../base/errors.ts';
import { type RegistryOp, onlyKey } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import { type CreatedPool, PoolOperations } from './pool-operations.ts';
import type { ContainerExplanation } from './container-explanation.ts';
import type { PoolRequest } from './pool-spec.ts';
import type { ContainerView, PoolDescription, PoolRow, PoolDetails } from './pool-views.ts';
import type { ContainerRecord } from '../state/container-records.ts';

const request: PoolRequest = { name: 'visits', module: 'counter', containers: 16 };

function operationsOn(cluster: DrainTestCluster): PoolOperations {
  return new PoolOperations(cluster.registry, cluster.clock);
}

function succeed<T>(cluster: DrainTestCluster, start: (done: Done<T>) => void): T {
  const outcome = cluster.await(start);
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
  return outcome.value;
}

function fail(cluster: DrainTestCluster, start: (done: Done<unknown>) => void): string {
  const outcome = cluster.await(start);
  assert.ok(!outcome.ok);
  return `${outcome.error.code}: ${outcome.error.message}`;
}

function write(cluster: DrainTestCluster, then: readonly RegistryOp[]): void {
  succeed(cluster, (done) => cluster.registry.transact({ compare: [], then, otherwise: [] }, {}, done));
}

describe('creating a pool', () => {
  test('fills in defaults and assigns a number', () => {
    const cluster = startedCluster(1);
    const created = succeed<CreatedPool>(cluster, (done) => operationsOn(cluster).create(request, done));
    assert.deepEqual(created, {
      ...{ name: 'visits', id: '1.0', module: 'counter', moduleVersion: 0, containers: 16, copies: 2 },
      ...{ durability: 'copies', restart: false, params: null, state: 'active', created: true },
    });
  });

  test('is idempotent, and refuses a different pool of that name with the difference', () => {
    const cluster = startedCluster(1);
    const pools = operationsOn(cluster);
    const params = { a: 1, b: { c: [1, 2], d: 2 } };
    succeed<CreatedPool>(cluster, (done) => pools.create({ ...request, params }, done));
    const before = cluster.revisionsSeen;
    const again = succeed<CreatedPool>(cluster, (done) =>
      pools.create({ ...request, copies: 2, params: { b: { d: 2, c: [1, 2] }, a: 1 } }, done),
    );
    assert.deepEqual([again.created, again.id], [false, '1.0']);
    assert.equal(cluster.revisionsSeen, before);
    const other = fail(cluster, (done) => pools.create({ ...request, containers: 17, restart: true, params }, done));
    assert.match(
      other,
      /PRECONDITION: pool visits already exists, with containers 16, not 17; restart false, not true/,
    );
    assert.match(
      fail(cluster, (done) => pools.create({ ...request, params: { a: 1 } }, done)),
      /^PRECONDITION: .*params/,
    );
  });

  test('never reuses a number, also after a deletion', () => {
    const cluster = startedCluster(1);
    const pools = operationsOn(cluster);
    const idOf = (name: string): string =>
      succeed<CreatedPool>(cluster, (done) => pools.create({ ...request, name }, done)).id;
    assert.deepEqual([idOf('a'), idOf('b')], ['1.0', '2.0']);
    succeed<PoolDescription>(cluster, (done) => pools.delete('b', done));
    assert.match(
      fail(cluster, (done) => pools.create({ ...request, name: 'b' }, done)),
      /PRECONDITION: pool b is being deleted/,
    );
    write(cluster, [{ kind: 'delete', range: onlyKey(clusterKey({ kind: 'pool', pool: 'b' })) }]);
    assert.equal(idOf('b'), '3.0');
  });

  test('gives concurrent callers a reply and each pool its own number', () => {
    const cluster = startedCluster(1);
    const pools = operationsOn(cluster);
    const ended: Outcome<{ readonly name: string; readonly id: string; readonly created: boolean }>[] = [];
    for (const name of ['a', 'b', 'a', 'c']) pools.create({ ...request, name }, (outcome) => ended.push(outcome));
    cluster.until(() => ended.length === 4, 5_000, 'four replies');
    const values = ended.map((outcome) => (outcome.ok ? outcome.value : assert.fail('refused')));
    assert.equal(new Set(values.map(({ id }) => id)).size, 3);
    assert.equal(values.filter(({ created }) => created).length, 3);
    assert.equal(new Set(values.filter(({ name }) => name === 'a').map(({ id }) => id)).size, 1);
  });

  test('refuses invalid requests, and too many containers without force', () => {
    const cluster = startedCluster(1);
    const pools = operationsOn(cluster);
    const refused = (others: object): string => fail(cluster, (done) => pools.create({ ...request, ...others }, done));
    assert.match(refused({ name: 'A b' }), /BAD_ARGUMENT: "A b" cannot be the name of a pool/);
    assert.match(refused({ name: undefined }), /BAD_ARGUMENT: undefined cannot be the name of a pool/);
    assert.match(refused({ module: undefined }), /BAD_ARGUMENT: undefined cannot be the name of a module/);
    assert.match(refused({ restart: 'yes' }), /BAD_ARGUMENT: restart is true or false/);
    assert.match(refused({ module: '../x' }), /BAD_ARGUMENT: .* name of a module/);
    for (const containers of [0, -1, 1.5, Number.NaN, 1_000_001, '4'])
      assert.match(refused({ containers }), /BAD_ARGUMENT: a pool has 1 to 1000000 containers/);
    for (const copies of [0, 8, 2.5]) assert.match(refused({ copies }), /BAD_ARGUMENT: a container has 1 to 7 copies/);
    assert.match(refused({ durability: 'paper' }), /BAD_ARGUMENT: durability is one of memory, local, copies/);
    assert.match(refused({ params: 'x'.repeat(70_000) }), /BAD_ARGUMENT: params/);
    assert.match(refused({ containers: 10_001 }), /PRECONDITION: 10001 containers .* --force/);
    const unforced = cluster.await<CreatedPool>((done) => pools.create({ ...request, containers: 10_001 }, done));
    assert.equal(!unforced.ok && unforced.error.stateChanged, 'no');
    assert.deepEqual(
      succeed<readonly PoolRow[]>(cluster, (done) => pools.list(done)),
      [],
    );
    const forced = succeed<CreatedPool>(cluster, (done) =>
      pools.create({ ...request, containers: 10_001, force: true }, done),
    );
    assert.ok(forced.created);
  });
});

describe('changing a pool', () => {
  test('deletes it by a state on which the placer acts, and is idempotent', () => {
    const cluster = startedCluster(1);
    const pools = operationsOn(cluster);
    assert.match(
      fail(cluster, (done) => pools.delete('visits', done)),
      /UNKNOWN_POOL: there is no pool visits/,
    );
    succeed<CreatedPool>(cluster, (done) => pools.create(request, done));
    assert.equal(succeed<PoolDescription>(cluster, (done) => pools.delete('visits', done)).state, 'deleting');
    const before = cluster.revisionsSeen;
    assert.equal(succeed<PoolDescription>(cluster, (done) => pools.delete('visits', done)).state, 'deleting');
    assert.equal(cluster.revisionsSeen, before);
  });

  test('sets the module version, but not while the pool is being deleted', () => {
    const cluster = startedCluster(1);
    const pools = operationsOn(cluster);
    succeed<CreatedPool>(cluster, (done) => pools.create(request, done));
    assert.equal(
      succeed<PoolDescription>(cluster, (done) => pools.setModuleVersion('visits', 3, done)).moduleVersion,
      3,
    );
    assert.match(
      fail(cluster, (done) => pools.setModuleVersion('visits', -1, done)),
      /BAD_ARGUMENT/,
    );
    succeed<PoolDescription>(cluster, (done) => pools.delete('visits', done));
    assert.match(
      fail(cluster, (done) => pools.setModuleVersion('visits', 4, done)),
      /PRECONDITION: pool visits is being deleted/,
    );
  });
});

/** A pool "q" of 12 containers with 2 replicas on the nodes a, b and c. */
function shown(): { cluster: DrainTestCluster; placer: FakePlacer; pools: PoolOperations } {
  const cluster = startedCluster(3, { mode: 'off' });
  const placer = new FakePlacer(cluster, 2);
  placer.replacesReplicas = false;
  placer.moveMs = undefined;
  placer.create(12, 'abc');
  return { cluster, placer, pools: operationsOn(cluster) };
}

describe('reading pools', () => {
  test('counts served and replicated containers in a list', () => {
    const { cluster, placer, pools } = shown();
    placer.change('3', { phase: 'opening' });
    placer.change('4', { inSync: [] });
    succeed<CreatedPool>(cluster, (done) => pools.create(request, done));
    const rows = succeed<readonly PoolRow[]>(cluster, (done) => pools.list(done));
    assert.deepEqual(
      rows.map(({ name, containers, serving, inSync, state }) => [name, containers, serving, inSync, state]),
      [
        ['q', 12, 11, 11, 'active'],
        ['visits', 16, 0, 0, 'active'],
      ],
    );
  });

  test('shows each container in the order of numbers, with the names of nodes', () => {
    const { cluster, placer, pools } = shown();
    const to = cluster.node('c').id;
    placer.change('10', { move: { to, cause: 'admin', step: 'copying' }, note: 'why not' });
    const pool = succeed<PoolDetails>(cluster, (done) => pools.show('q', {}, done));
    assert.deepEqual(
      pool.containers.map(({ id }) => id),
      Array.from({ length: 12 }, (_, id) => id),
    );
    assert.deepEqual([pool.id, pool.copies, pool.containerCount, pool.more], ['1.0', 2, 12, false]);
    const { version, fence, ...tenth } = pool.containers[10] ?? assert.fail();
    assert.ok(version > 0 && /^\d+$/.test(fence));
    assert.deepEqual(tenth, {
      ...{ id: 10, owner: 'b', copies: ['b', 'c'], inSync: ['b', 'c'], phase: 'serving' },
      ...{ move: { to: 'c', cause: 'admin', step: 'copying' }, moduleVersion: 0, failures: 0, note: 'why not' },
    });
    const one = succeed<ContainerView>(cluster, (done) => pools.showContainer('q', 10, done));
    assert.deepEqual(one, { pool: 'q', ...pool.containers[10] });
    const page = succeed<PoolDetails>(cluster, (done) => pools.show('q', { from: 4, limit: 3 }, done));
    assert.deepEqual([page.containers.map(({ id }) => id), page.more], [[4, 5, 6], true]);
  });

  test('shows missing and malformed container records as such', () => {
    const { cluster, pools } = shown();
    const key = (container: string): string => clusterKey({ kind: 'container', pool: 'q', container });
    write(cluster, [
      { kind: 'delete', range: onlyKey(key('2')) },
      { kind: 'put', key: key('5'), value: new TextEncoder().encode('{"owner":7}') },
    ]);
    const pool = succeed<PoolDetails>(cluster, (done) => pools.show('q', {}, done));
    assert.match(pool.containers[2]?.note ?? '', /the leader has not created it yet/);
    assert.match(pool.containers[5]?.note ?? '', /cannot be read/);
    assert.deepEqual([pool.containers[2]?.owner, pool.containers[2]?.version, pool.serving], [null, 0, 10]);
  });

  test('has error codes for unknown pools and containers', () => {
    const { cluster, pools } = shown();
    assert.match(
      fail(cluster, (done) => pools.show('p', {}, done)),
      /^UNKNOWN_POOL/,
    );
    assert.match(
      fail(cluster, (done) => pools.show('P!', {}, done)),
      /^BAD_ARGUMENT/,
    );
    for (const id of [12, -1, 0.5, Number.NaN])
      assert.match(
        fail(cluster, (done) => pools.showContainer('q', id, done)),
        /^UNKNOWN_CONTAINER: pool q has the containers 0 to 11/,
      );
  });
});

describe('explaining a container', () => {
  function explained(change: (both: ReturnType<typeof shown>) => Partial<ContainerRecord>): {
    readonly text: string;
    readonly recoverableBy: readonly string[];
  } {
    const both = shown();
    both.placer.change('1', change(both));
    both.cluster.run(5_000);
    const { reasons, recoverableBy } = succeed<ContainerExplanation>(both.cluster, (done) =>
      both.pools.explainContainer('q', 1, done),
    );
    for (const reason of reasons) assert.match(reason, /^[A-Za-z0-9].*\.$/, 'a sentence');
    return { text: reasons.join(' '), recoverableBy };
  }

  test('names the owner, the replicas in sync, and the recovery candidates', () => {
    const { text, recoverableBy } = explained(() => ({}));
    assert.match(text, /b \(generation 1\) owns it and has opened it, because it is new\./);
    assert.match(text, /b, c have every acknowledged write\./);
    assert.match(text, /If b were lost, c could take over\./);
    assert.deepEqual(recoverableBy, ['c']);
  });

  test('says where, why and how far it moves', () => {
    const step = (name: 'copying' | 'handing' | 'handed'): string =>
      explained(({ cluster, placer }) => {
        const { id: to } = cluster.node('a');
        return { copies: [...placer.record('1').copies, to], move: { to, cause: 'drain', step: name } };
      }).text;
    assert.match(step('copying'), /It moves to a, because its owner is being drained: a is getting its state first/);
    assert.match(step('handing'), /b is finishing its calls/);
    assert.match(step('handed'), /b has handed it over, and the leader makes a its owner/);
  });

  test('says that no other node has its state', () => {
    const { text, recoverableBy } = explained(({ cluster }) => {
      const { id: node } = cluster.node('b');
      return { copies: [node], inSync: [{ node, generation: 1 }] };
    });
    assert.match(text, /No other node has all of its state: if b were lost, it would wait for b to come back\./);
    assert.match(text, /The pool wants 2 copies and has 1: the leader has not chosen another node yet\./);
    assert.deepEqual(recoverableBy, []);
  });

  test('names the nodes that it waits for without an owner', () => {
    const { text, recoverableBy } = explained(({ cluster }) => {
      cluster.node('b').kill();
      cluster.node('c').kill();
      return { owner: undefined, note: 'no replica is available' };
    });
    assert.match(text, /It has no owner\. Note: no replica is available\./);
    assert.match(text, /It waits for .*: without them acknowledged writes would be lost\./);
    assert.deepEqual(recoverableBy, []);
  });

  test('explains failed activations, a lost owner and another module version', () => {
    const { text, recoverableBy } = explained(({ cluster }) => {
      cluster.node('b').kill();
      return { phase: 'opening', opening: 'recover', failures: 2, moduleVersion: 3 };
    });
    assert.match(text, /owns it and is opening it, because its former owner was lost/);
    assert.match(text, /2 owners in a row could not open it\./);
    assert.match(text, /is not registered: it is lost, leaving or cut off\./);
    assert.match(text, /It runs version 3 of the module, and the pool is being rolled to version 0\./);
    assert.deepEqual(recoverableBy, ['c']);
  });
});
