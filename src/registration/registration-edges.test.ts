/** Double faults: lost replies, two processes of one node, failing hooks, and conflicts between read and write. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, success } from '../base/errors.ts';
import {
  RegistrationTestCluster,
  startedCluster,
  setMode,
  ttlMs,
} from '../../test/support/registration/registration-cluster.ts';

describe('two processes of one node', () => {
  test('the later generation takes over at once, and fences the earlier one', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.start('b');
    cluster.run(2_000);
    assert.ok(
      cluster.log.some((line) => line.endsWith('b/1 fenced')),
      cluster.log.join('\n'),
    );
    cluster.run(3 * ttlMs);
    assert.equal(cluster.statusOf('b'), 'active fast_restart');
    assert.equal(cluster.entry('b')?.registration?.record?.generation, 2);
  });

  test('an earlier generation that was cut off is fenced when its connection heals', () => {
    const cluster = startedCluster(['a', 'b']);
    const zombieConnection = cluster.node('b').connection;
    zombieConnection?.interrupt();
    cluster.run(1_000);
    cluster.start('b');
    cluster.run(30_000);
    zombieConnection?.resume();
    cluster.run(10_000);
    assert.ok(
      cluster.log.some((line) => line.endsWith('b/1 fenced')),
      cluster.log.join('\n'),
    );
    assert.equal(cluster.statusOf('b'), 'active fast_restart');
  });

  test('a process that starts on an older copy of the data is fenced, even if no node is registered', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.crash('b');
    cluster.start('b');
    cluster.run(5_000);
    cluster.crash('b');
    cluster.start('b', 1);
    cluster.run(1_000);
    assert.match(cluster.node('b').fenced ?? '', /generation 2 of this node/);
    cluster.crash('b');
    cluster.run(2 * ttlMs);
    cluster.start('b', 1);
    cluster.run(1_000);
    assert.match(cluster.node('b').fenced ?? '', /generation 2 of this node/);
  });

  test('a second process with the same generation is fenced', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.createProcess('b', 1, cluster.registry.connect()).host.start();
    cluster.run(1_000);
    assert.match(cluster.node('b').fenced ?? '', /another process runs with generation 1/);
    assert.equal(cluster.log.filter((line) => line.endsWith('fenced')).length, 1, 'the first one goes on');
  });
});

describe('a lost reply', () => {
  test('does not undo a registration: the node finds it and keeps it', () => {
    const cluster = new RegistrationTestCluster(['a']);
    const connection = cluster.registry.connect();
    const transact = connection.transact.bind(connection);
    let lost = 0;
    connection.transact = (transaction, options, done) => {
      transact(transaction, options, (outcome) => {
        if (transaction.then.every((op) => op.kind === 'read')) return done(outcome);
        lost += 1;
        cluster.timeline.after(options.timeoutMs ?? 0, () => done(failure('DEADLINE')));
      });
    };
    const { host } = cluster.createProcess('a', 1, connection);
    host.start();
    cluster.run(25_000);
    assert.equal(lost, 2, 'the registration, and the activation');
    assert.equal(cluster.statusOf('a'), 'active boot');
    assert.equal(cluster.epoch(), 1);
  });

  test('does not extend a renewal: its time counts from sending, not from the reply (D2)', () => {
    const cluster = startedCluster(['a', 'b']);
    const connection = cluster.node('b').connection;
    assert.ok(connection);
    const keepAlive = connection.keepAlive.bind(connection);
    const sent: number[] = [];
    connection.keepAlive = (lease, options, done) => {
      sent.push(cluster.nowMs);
      if (sent.length > 1) cluster.timeline.after(0, () => done(failure('NO_QUORUM')));
      else keepAlive(lease, options, (outcome) => cluster.timeline.after(3_000, () => done(outcome)));
    };
    cluster.run(60_000);
    const lost = Number.parseInt(cluster.log.find((line) => line.endsWith('b registration.lost')) ?? '', 10);
    assert.equal(Math.round((lost - (sent[0] as number)) / 100), 320);
  });

  test('of many renewals does not end a registration that the registry has kept: the node resumes', () => {
    const cluster = startedCluster(['a', 'b']);
    const lease = cluster.entry('b')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.cut('b');
    for (let s = 0; s < 60; s += 10) {
      cluster.registry.keepAlive(lease, {}, () => {});
      cluster.run(10_000);
    }
    cluster.heal('b');
    cluster.run(6_000);
    assert.equal(cluster.statusOf('b'), 'active join');
    const events = cluster.log.map((line) => line.slice(line.indexOf(' ') + 1));
    assert.deepEqual(events, ['b registration.lost', 'b registration.resumed']);
  });

  test('of a watch whose history was compacted loses no change: the node reads again', () => {
    const cluster = startedCluster(['a', 'b'], {}, { historyChangesMax: 10 });
    const before = cluster.node('b').reconcileCount;
    cluster.cut('b');
    for (let i = 0; i < 20; i++) cluster.write({ kind: 'put', key: `/else/${i}`, value: new Uint8Array() });
    setMode(cluster, 'b', 'draining');
    for (let i = 0; i < 20; i++) cluster.write({ kind: 'put', key: `/else/${i}`, value: new Uint8Array() });
    cluster.heal('b');
    cluster.run(5_000);
    assert.equal(cluster.node('b').host?.state?.mode, 'draining');
    assert.equal(cluster.node('b').reconcileCount, before + 1);
  });
});

/** Runs `interfere` after this node has read its snapshot and before its next write takes effect. */
function beforeWrite(cluster: RegistrationTestCluster, name: string, interfere: () => void): void {
  const { connection } = cluster.node(name);
  assert.ok(connection);
  const transact = connection.transact.bind(connection);
  let pending = true;
  connection.transact = (transaction, options, done) => {
    if (pending && transaction.then.some((op) => op.kind === 'put')) {
      pending = false;
      interfere();
    }
    transact(transaction, options, done);
  };
}

describe('a change between read and registration', () => {
  test('lets one node begin the epoch when all boot at the same instant; the others join it', () => {
    const cluster = new RegistrationTestCluster(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.start(name);
    cluster.run(5_000);
    const statuses = ['a', 'b', 'c'].map((name) => cluster.statusOf(name)).toSorted();
    assert.deepEqual(statuses, ['active boot', 'active join', 'active join']);
    assert.equal(cluster.epoch(), 1);
  });

  test('makes a fast restart a late return if the old registration expires meanwhile', () => {
    const cluster = startedCluster(['a', 'b']);
    const lease = cluster.entry('b')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.crash('b');
    cluster.start('b');
    beforeWrite(cluster, 'b', () => cluster.registry.revoke(lease, {}, () => {}));
    cluster.run(5_000);
    assert.equal(cluster.statusOf('b'), 'drained stale_restart');
  });

  test('makes a late return a full restart if the last other registration expires meanwhile', () => {
    const cluster = startedCluster(['a', 'b']);
    const lease = cluster.entry('a')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.crash('b');
    cluster.run(3 * ttlMs);
    cluster.crash('a');
    cluster.start('b');
    beforeWrite(cluster, 'b', () => cluster.registry.revoke(lease, {}, () => {}));
    cluster.run(5_000);
    assert.equal(cluster.statusOf('b'), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
  });

  test('keeps a node from becoming active if its registration expires while it reconciles', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.crash('b');
    cluster.start('b');
    cluster.node('b').reconcile = (done) => {
      cluster.node('b').reconcile = (again) => again(success(undefined));
      const lease = cluster.entry('b')?.registration?.entry.lease;
      assert.ok(lease);
      cluster.registry.revoke(lease, {}, () => done(success(undefined)));
    };
    cluster.run(1);
    assert.notEqual(cluster.entry('b')?.state?.record?.mode, 'active');
    cluster.run(15_000);
    assert.equal(cluster.statusOf('b'), 'drained registration_expired');
  });
});

describe('the reconcile hook', () => {
  test('runs once more when a drained node is activated', () => {
    const cluster = startedCluster(['a', 'b']);
    setMode(cluster, 'b', 'drained');
    cluster.run(10);
    const before = cluster.node('b').reconcileCount;
    setMode(cluster, 'b', 'active');
    cluster.run(10);
    assert.equal(cluster.node('b').reconcileCount, before + 1);
  });

  test('D10: is called again if it fails or never calls back; each failure is reported, and the node is not active', () => {
    const cluster = new RegistrationTestCluster(['a']);
    let called = 0;
    cluster.node('a').reconcile = (done) => {
      called += 1;
      assert.equal(cluster.statusOf('a'), 'joining boot');
      if (called === 2) done(failure('STORE_FAILED'));
      if (called === 3) done(success(undefined));
    };
    cluster.start('a');
    cluster.run(15_000);
    assert.equal(cluster.statusOf('a'), 'joining boot');
    cluster.run(15_000);
    assert.equal(called, 3);
    assert.equal(cluster.statusOf('a'), 'active boot');
    assert.equal(cluster.log.filter((line) => line.includes('reconcile.failed')).length, 2);
  });
});
