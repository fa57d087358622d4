/** What only happens when something goes wrong twice: lost answers, two lives, failing hooks, epochs that nobody saw. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, success } from '../base/errors.ts';
import {
  RegistrationTestCluster,
  running,
  setMode,
  ttlMs,
} from '../../test/support/registration/registration-cluster.ts';

describe('two lives of one node', () => {
  test('the later one takes over at once; the earlier one ends as soon as it hears of it', () => {
    const cluster = running(['a', 'b']);
    cluster.start('b');
    cluster.run(2_000);
    assert.ok(
      cluster.log.some((line) => line.endsWith('b/1 fenced')),
      cluster.log.join('\n'),
    );
    cluster.run(3 * ttlMs);
    assert.equal(cluster.standing('b'), 'active fast_restart');
    assert.equal(cluster.row('b')?.registration?.record?.generation, 2);
  });

  test('an earlier life that was cut off is fenced when it hears again', () => {
    const cluster = running(['a', 'b']);
    const zombieSide = cluster.node('b').side;
    zombieSide?.interrupt();
    cluster.run(1_000);
    cluster.start('b');
    cluster.run(30_000);
    zombieSide?.resume();
    cluster.run(10_000);
    assert.ok(
      cluster.log.some((line) => line.endsWith('b/1 fenced')),
      cluster.log.join('\n'),
    );
    assert.equal(cluster.standing('b'), 'active fast_restart');
  });

  test('an older copy of the data that starts is refused, also when nothing is registered any more', () => {
    const cluster = running(['a', 'b']);
    cluster.crash('b');
    cluster.start('b');
    cluster.run(5_000);
    cluster.crash('b');
    cluster.start('b', 1);
    cluster.run(1_000);
    assert.match(cluster.node('b').fenced ?? '', /life 2 of this node/);
    cluster.crash('b');
    cluster.run(2 * ttlMs);
    cluster.start('b', 1);
    cluster.run(1_000);
    assert.match(cluster.node('b').fenced ?? '', /life 2 of this node/);
  });

  test('a twin of the same life is refused', () => {
    const cluster = running(['a', 'b']);
    cluster.life('b', 1, cluster.registry.connect()).host.start();
    cluster.run(1_000);
    assert.match(cluster.node('b').fenced ?? '', /another process runs as life 1/);
    assert.equal(cluster.log.filter((line) => line.endsWith('fenced')).length, 1, 'the first one goes on');
  });
});

describe('answers that are lost', () => {
  test('what was registered without an answer is found and kept', () => {
    const cluster = new RegistrationTestCluster(['a']);
    const side = cluster.registry.connect();
    const transact = side.transact.bind(side);
    let lost = 0;
    side.transact = (transaction, options, done) => {
      transact(transaction, options, (outcome) => {
        if (transaction.then.every((op) => op.kind === 'read')) return done(outcome);
        lost += 1;
        cluster.timeline.after(options.timeoutMs ?? 0, () => done(failure('DEADLINE')));
      });
    };
    const { host } = cluster.life('a', 1, side);
    host.start();
    cluster.run(25_000);
    assert.equal(lost, 2, 'the entry, and the turn from joining to active');
    assert.equal(cluster.standing('a'), 'active boot');
    assert.equal(cluster.epoch(), 1);
  });

  test('time counts from sending the last good renewal, not from its answer (D2)', () => {
    const cluster = running(['a', 'b']);
    const side = cluster.node('b').side;
    assert.ok(side);
    const keepAlive = side.keepAlive.bind(side);
    const sent: number[] = [];
    side.keepAlive = (lease, options, done) => {
      sent.push(cluster.nowMs);
      if (sent.length > 1) cluster.timeline.after(0, () => done(failure('NO_QUORUM')));
      else keepAlive(lease, options, (outcome) => cluster.timeline.after(3_000, () => done(outcome)));
    };
    cluster.run(60_000);
    const lost = Number.parseInt(cluster.log.find((line) => line.endsWith('b registration.lost')) ?? '', 10);
    assert.equal(Math.round((lost - (sent[0] as number)) / 100), 320);
  });

  test('the registration outlasts a longer silence (time stood still): the node resumes as it was', () => {
    const cluster = running(['a', 'b']);
    const lease = cluster.row('b')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.cut('b');
    for (let s = 0; s < 60; s += 10) {
      cluster.registry.keepAlive(lease, {}, () => {});
      cluster.run(10_000);
    }
    cluster.heal('b');
    cluster.run(6_000);
    assert.equal(cluster.standing('b'), 'active join');
    const words = cluster.log.map((line) => line.slice(line.indexOf(' ') + 1));
    assert.deepEqual(words, ['b registration.lost', 'b registration.resumed']);
  });

  test('a watch whose history is gone begins anew and misses nothing', () => {
    const cluster = running(['a', 'b'], {}, { historyChangesMax: 10 });
    const reconciled = cluster.node('b').reconciled;
    cluster.cut('b');
    for (let i = 0; i < 20; i++) cluster.write({ kind: 'put', key: `/else/${i}`, value: new Uint8Array() });
    setMode(cluster, 'b', 'draining');
    for (let i = 0; i < 20; i++) cluster.write({ kind: 'put', key: `/else/${i}`, value: new Uint8Array() });
    cluster.heal('b');
    cluster.run(5_000);
    assert.equal(cluster.node('b').host?.state?.mode, 'draining');
    assert.equal(cluster.node('b').reconciled, reconciled + 1);
  });
});

/** Runs `meddle` after this node has looked and before its next write arrives. */
function beforeWrite(cluster: RegistrationTestCluster, name: string, meddle: () => void): void {
  const side = cluster.node(name).side;
  assert.ok(side);
  const transact = side.transact.bind(side);
  let pending = true;
  side.transact = (transaction, options, done) => {
    if (pending && transaction.then.some((op) => op.kind === 'put')) {
      pending = false;
      meddle();
    }
    transact(transaction, options, done);
  };
}

describe('what changes between the look and the entry', () => {
  test('all boot at the same instant: one begins the epoch, the others join it', () => {
    const cluster = new RegistrationTestCluster(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.start(name);
    cluster.run(5_000);
    const standings = ['a', 'b', 'c'].map((name) => cluster.standing(name)).toSorted();
    assert.deepEqual(standings, ['active boot', 'active join', 'active join']);
    assert.equal(cluster.epoch(), 1);
  });

  test('the registration that was to be taken over has ended: it is a late return', () => {
    const cluster = running(['a', 'b']);
    const lease = cluster.row('b')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.crash('b');
    cluster.start('b');
    beforeWrite(cluster, 'b', () => cluster.registry.revoke(lease, {}, () => {}));
    cluster.run(5_000);
    assert.equal(cluster.standing('b'), 'drained stale_restart');
  });

  test('the last of the others has ended as well: nobody outlived the node', () => {
    const cluster = running(['a', 'b']);
    const lease = cluster.row('a')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.crash('b');
    cluster.run(3 * ttlMs);
    cluster.crash('a');
    cluster.start('b');
    beforeWrite(cluster, 'b', () => cluster.registry.revoke(lease, {}, () => {}));
    cluster.run(5_000);
    assert.equal(cluster.standing('b'), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
  });

  test('the registration ends while the node still confirms what it holds: it does not become active', () => {
    const cluster = running(['a', 'b']);
    cluster.crash('b');
    cluster.start('b');
    cluster.node('b').reconcile = (done) => {
      cluster.node('b').reconcile = (again) => again(success(undefined));
      const lease = cluster.row('b')?.registration?.entry.lease;
      assert.ok(lease);
      cluster.registry.revoke(lease, {}, () => done(success(undefined)));
    };
    cluster.run(1);
    assert.notEqual(cluster.row('b')?.state?.record?.mode, 'active');
    cluster.run(15_000);
    assert.equal(cluster.standing('b'), 'drained registration_expired');
  });
});

describe('confirming what it holds', () => {
  test('a node that was drained and is activated confirms it once more', () => {
    const cluster = running(['a', 'b']);
    setMode(cluster, 'b', 'drained');
    cluster.run(10);
    const { reconciled } = cluster.node('b');
    setMode(cluster, 'b', 'active');
    cluster.run(10);
    assert.equal(cluster.node('b').reconciled, reconciled + 1);
  });

  test('D10: a hook that never answers, or fails, is called again; it is reported, and the node is not active', () => {
    const cluster = new RegistrationTestCluster(['a']);
    let called = 0;
    cluster.node('a').reconcile = (done) => {
      called += 1;
      assert.equal(cluster.standing('a'), 'joining boot');
      if (called === 2) done(failure('STORE_FAILED'));
      if (called === 3) done(success(undefined));
    };
    cluster.start('a');
    cluster.run(15_000);
    assert.equal(cluster.standing('a'), 'joining boot');
    cluster.run(15_000);
    assert.equal(called, 3);
    assert.equal(cluster.standing('a'), 'active boot');
    assert.equal(cluster.log.filter((line) => line.includes('reconcile.failed')).length, 2);
  });
});
