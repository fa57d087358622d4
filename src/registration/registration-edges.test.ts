/** What only happens when something goes wrong twice: lost answers, two lives, failing hooks, epochs that nobody saw. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, success } from '../base/errors.ts';
import { clusterKey, keyRanges } from '../registry/cluster-keys.ts';
import {
  RegistrationTestCluster,
  running,
  setMode,
  ttlMs,
} from '../../test/support/registration/registration-cluster.ts';

describe('two lives of one node', () => {
  test('the later one takes over at once; the earlier one ends as soon as it hears of it', () => {
    const cluster = running(['a', 'b']);
    const zombie = cluster.node('b').host;
    cluster.start('b');
    cluster.run(2_000);
    assert.ok(
      cluster.log.some((line) => line.endsWith('b/1 fenced')),
      cluster.log.join('\n'),
    );
    assert.equal(zombie?.canServe(), false);
    cluster.run(3 * ttlMs);
    assert.equal(cluster.standing('b'), 'active fast_restart');
    assert.equal(cluster.row('b')?.registration?.record?.generation, 2);
  });

  test('an earlier life that was cut off stops by itself, and is fenced when it hears again', () => {
    const cluster = running(['a', 'b']);
    const zombie = cluster.node('b').host;
    const zombieSide = cluster.node('b').side;
    zombieSide?.interrupt();
    cluster.run(1_000);
    cluster.start('b');
    cluster.run(30_000);
    assert.equal(zombie?.canServe(), false);
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
    assert.equal(cluster.node('b').host?.canServe(), true);
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
    assert.equal(host.canServe(), true);
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
    const stopped = Number.parseInt(cluster.log.find((line) => line.endsWith('b stops')) ?? '', 10);
    assert.equal(Math.round((stopped - (sent[0] as number)) / 100), 256);
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
    assert.equal(cluster.node('b').serving, false);
    cluster.heal('b');
    cluster.run(6_000);
    assert.equal(cluster.standing('b'), 'active join');
    assert.equal(cluster.node('b').serving, true);
    const words = cluster.log.map((line) => line.slice(line.indexOf(' ') + 1));
    assert.deepEqual(words, ['b stops', 'b registration.lost', 'b registration.resumed', 'b serves']);
  });

  test('a watch whose history is gone begins anew and misses nothing', () => {
    const cluster = running(['a', 'b'], {}, { historyChangesMax: 10 });
    cluster.cut('b');
    for (let i = 0; i < 20; i++) cluster.assign('b', 'p', String(i));
    cluster.heal('b');
    cluster.run(5_000);
    assert.equal(cluster.node('b').lists.at(-1)?.length, 20);
    assert.equal(cluster.node('b').serving, true);
    assert.equal(
      cluster.log.some((line) => line.endsWith('b stops')),
      false,
      'it never stopped serving',
    );
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

  test('the registration ends while the node is still taking what is assigned: it does not become active', () => {
    const cluster = running(['a', 'b']);
    cluster.crash('b');
    cluster.start('b');
    cluster.node('b').reconcile = (_, done) => {
      cluster.node('b').reconcile = (_list, again) => again(success({ failed: [] }));
      const lease = cluster.row('b')?.registration?.entry.lease;
      assert.ok(lease);
      cluster.registry.revoke(lease, {}, () => done(success({ failed: [] })));
    };
    cluster.run(1);
    assert.notEqual(cluster.row('b')?.state?.record?.mode, 'active');
    cluster.run(15_000);
    assert.equal(cluster.standing('b'), 'drained registration_expired');
  });
});

describe('taking what is assigned', () => {
  test('D10: it is tried again and reported, and given to others after the deadline', () => {
    const cluster = new RegistrationTestCluster(['a']);
    cluster.assign('a', 'p', '1');
    cluster.assign('a', 'p', '2');
    cluster.node('a').reconcile = (assignments, done) =>
      done(success({ failed: assignments.filter(({ container }) => container === '2') }));
    cluster.start('a');
    cluster.run(30_000);
    assert.equal(cluster.standing('a'), 'joining boot');
    cluster.run(60_000);
    assert.equal(cluster.standing('a'), 'active boot');
    assert.deepEqual(cluster.node('a').lists.at(-1), ['p/1']);
    const waiting = cluster.registry.keyspace.range(keyRanges.unassigned, 10).entries.map(({ key }) => key);
    assert.deepEqual(waiting, [clusterKey({ kind: 'unassigned', pool: 'p', container: '2' })]);
    assert.ok(cluster.log.filter((line) => line.includes('reconcile.failed')).length > 5);
  });

  test('a node that was drained and is activated takes what is assigned before it serves', () => {
    const cluster = running(['a', 'b']);
    setMode(cluster, 'b', 'drained');
    cluster.run(10);
    assert.equal(cluster.node('b').serving, false);
    cluster.assign('b', 'p', '1');
    cluster.run(10);
    let serving: boolean | undefined;
    cluster.node('b').reconcile = (_, done) => {
      serving = cluster.node('b').host?.canServe();
      done(success({ failed: [] }));
    };
    setMode(cluster, 'b', 'active');
    cluster.run(10);
    assert.equal(serving, false);
    assert.deepEqual(cluster.node('b').lists.at(-1), ['p/1']);
    assert.equal(cluster.node('b').serving, true);
  });

  test('a hook that never answers, or throws an error at all of it, is asked again', () => {
    const cluster = new RegistrationTestCluster(['a']);
    cluster.assign('a', 'p', '1');
    let asked = 0;
    cluster.node('a').reconcile = (_, done) => {
      asked += 1;
      if (asked === 2) done(failure('STORE_FAILED'));
      if (asked === 3) done(success({ failed: [] }));
    };
    cluster.start('a');
    cluster.run(30_000);
    assert.equal(asked, 3);
    assert.equal(cluster.standing('a'), 'active boot');
  });
});

describe('what becomes of a late return', () => {
  test('rejoin active: it works again at once, and the reason stays visible', () => {
    const cluster = running(['a', 'b'], { rejoin: 'active' });
    cluster.crash('b');
    cluster.run(100_000);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'active stale_restart');
    assert.equal(cluster.node('b').serving, true);
  });

  test('rejoin auto: drained first, active after 60 s without a failure (L20)', () => {
    const cluster = running(['a', 'b'], { rejoin: 'auto' });
    cluster.cut('b');
    cluster.run(100_000);
    cluster.heal('b');
    cluster.run(10_000);
    assert.equal(cluster.standing('b'), 'drained registration_expired');
    cluster.cut('b', 'NO_QUORUM');
    cluster.run(15_000);
    cluster.heal('b');
    cluster.run(50_000);
    assert.equal(cluster.standing('b'), 'drained registration_expired', 'the glitch began the hold anew');
    cluster.run(20_000);
    assert.equal(cluster.standing('b'), 'active registration_expired');
    assert.equal(cluster.node('b').serving, true);
  });

  test('rejoin auto never undoes what an operator did', () => {
    const cluster = running(['a', 'b'], { rejoin: 'auto' });
    setMode(cluster, 'b', 'drained');
    cluster.run(300_000);
    assert.equal(cluster.standing('b'), 'drained admin_drain');
  });

  test('one that was being drained comes back drained', () => {
    const cluster = running(['a', 'b']);
    setMode(cluster, 'b', 'draining');
    cluster.crash('b');
    cluster.run(100_000);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'drained drain_complete');
  });
});

describe('epochs', () => {
  test('who starts right after a change of the leader waits for a sign of those who lived through it', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.crash('c');
    for (const name of ['a', 'b']) cluster.cut(name);
    cluster.lead('b');
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.node('c').serving, false);
    for (const name of ['a', 'b']) cluster.heal(name);
    cluster.run(5_000);
    assert.equal(cluster.standing('c'), 'active fast_restart');
    assert.equal(cluster.epoch(), 1);
  });

  test('a node that lived on but was not heard takes over the epoch of the others', () => {
    const cluster = running(['a', 'b', 'c']);
    const lease = cluster.row('c')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.cut('c');
    for (const name of ['a', 'b']) cluster.crash(name);
    cluster.run(1_000);
    cluster.lead('b');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.run(10_000);
    assert.equal(cluster.standing('a'), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
    cluster.heal('c');
    cluster.run(15_000);
    assert.equal(cluster.standing('c'), 'active join');
    assert.equal(cluster.row('c')?.state?.record?.epoch, 2);
    cluster.crash('c');
    cluster.run(ttlMs);
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.standing('c'), 'drained stale_restart', 'and is late when it comes late');
  });

  test('stopped one after the other over minutes, started together: nobody outlived the restart', () => {
    const cluster = running(['a', 'b', 'c']);
    for (const name of ['c', 'b', 'a']) {
      cluster.crash(name);
      cluster.run(60_000);
    }
    cluster.lead('a');
    for (const name of ['b', 'c', 'a']) cluster.start(name);
    cluster.run(10_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.standing(name), 'active full_cluster_restart');
  });
});

describe('leaving for good', () => {
  test('the node is forgotten, and a later start is a first one', () => {
    const cluster = running(['a', 'b']);
    const ends: boolean[] = [];
    cluster.node('b').host?.leave(({ ok }) => ends.push(ok));
    cluster.run(10);
    assert.deepEqual(ends, [true]);
    assert.equal(cluster.row('b'), undefined);
    assert.equal(cluster.node('b').serving, false);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'active join');
  });
});
