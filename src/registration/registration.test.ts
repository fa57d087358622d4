/** Registration on a shared registry at full length: restarts, glitches, expiry, return (scenarios DA-1, 2, 9 to 13). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, success } from '../base/errors.ts';
import { type LeaseId, onlyKey } from '../base/registry.ts';
import { clusterKey, keyRanges } from '../registry/cluster-keys.ts';
import {
  RegistrationTestCluster,
  running,
  setMode,
  ttlMs,
} from '../../test/support/registration/registration-cluster.ts';

describe('arriving', () => {
  test('the first of all boots, the next ones join, all are active', () => {
    const cluster = running(['a', 'b', 'c']);
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => cluster.standing(name)),
      ['active boot', 'active join', 'active join'],
    );
    assert.equal(cluster.epoch(), 1);
  });

  test('a node that is to join drained is drained', () => {
    const cluster = running(['a']);
    const other = new RegistrationTestCluster(['a', 'b'], { firstJoin: 'drained' });
    other.start('a');
    other.run(1_000);
    other.start('b');
    other.run(1_000);
    assert.equal(other.standing('a'), 'active boot');
    assert.equal(other.standing('b'), 'drained join');
    assert.equal(cluster.standing('a'), 'active boot');
  });

  test('what it holds is confirmed before the node is active, and nothing in between is missed (D9, D12)', () => {
    const cluster = new RegistrationTestCluster(['a']);
    const node = cluster.node('a');
    let finish = (): void => {};
    node.reconcile = (done) => {
      finish = () => done(success(undefined));
    };
    cluster.start('a');
    cluster.run(5_000);
    assert.equal(cluster.standing('a'), 'joining boot');
    assert.equal(node.reconciled, 1);
    finish();
    cluster.run(10);
    assert.equal(cluster.standing('a'), 'active boot');
    setMode(cluster, 'a', 'drained');
    cluster.run(10);
    assert.equal(node.host?.state?.mode, 'drained');
  });

  test('no answer, or a bad one, never means active (D8)', () => {
    const cluster = new RegistrationTestCluster(['a', 'b']);
    cluster.start('a');
    cluster.run(1_000);
    cluster.start('b');
    cluster.cut('b', 'NO_QUORUM');
    cluster.run(120_000);
    assert.equal(cluster.row('b'), undefined);
    cluster.heal('b');
    cluster.run(6_000);
    assert.equal(cluster.standing('b'), 'active join');
  });

  test('a state that cannot be read makes a drained node, also after a restart of all', () => {
    const cluster = running(['a', 'b']);
    cluster.crash('b');
    cluster.write({
      kind: 'put',
      key: clusterKey({ kind: 'state', node: cluster.node('b').id }),
      value: new Uint8Array([1]),
    });
    cluster.start('b');
    cluster.run(5_000);
    assert.equal(cluster.standing('b'), 'drained fast_restart');
    cluster.crash('a');
    cluster.crash('b');
    cluster.write({
      kind: 'put',
      key: clusterKey({ kind: 'state', node: cluster.node('a').id }),
      value: new Uint8Array([1]),
    });
    cluster.run(2 * ttlMs);
    cluster.start('a');
    cluster.run(5_000);
    assert.equal(cluster.standing('a'), 'drained full_cluster_restart');
  });

  test('without a readable epoch it waits and says so', () => {
    const cluster = running(['a', 'b']);
    cluster.write({ kind: 'put', key: clusterKey({ kind: 'epoch' }), value: new Uint8Array([1]) });
    cluster.crash('b');
    cluster.start('b');
    cluster.run(10_000);
    assert.deepEqual(
      cluster.log.map((line) => line.slice(line.indexOf(' ') + 1)),
      ['b registration.blocked'],
    );
  });
});

describe('restart below the TTL', () => {
  test('DA-1: the registration is taken over, what it holds is confirmed, the node is active', () => {
    const cluster = running(['a', 'b', 'c']);
    const { reconciled } = cluster.node('b');
    const before = cluster.row('b')?.registration?.entry;
    cluster.crash('b');
    cluster.run(5_000);
    cluster.start('b');
    cluster.run(5_000);
    const after = cluster.row('b')?.registration?.entry;
    assert.equal(cluster.standing('b'), 'active fast_restart');
    assert.ok(cluster.node('b').reconciled > reconciled);
    assert.equal(after?.createRevision, before?.createRevision, 'it was registered without a gap');
    assert.notEqual(after?.lease, before?.lease);
    const renewals: boolean[] = [];
    cluster.registry.keepAlive(before?.lease as LeaseId, {}, ({ ok }) => renewals.push(ok));
    cluster.run(0);
    assert.deepEqual(renewals, [false], 'the lease of the earlier life is over');
    cluster.run(3 * ttlMs);
    assert.equal(cluster.standing('b'), 'active fast_restart');
    assert.deepEqual(
      cluster.log.filter((line) => line.includes('lost')),
      [],
    );
  });

  test('DA-2: the leader restarts; the others lived on, so it is a fast restart', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.crash('a');
    cluster.run(1_500);
    cluster.lead('b');
    cluster.run(3_000);
    cluster.start('a');
    cluster.run(5_000);
    assert.equal(cluster.standing('a'), 'active fast_restart');
    assert.equal(cluster.epoch(), 1);
  });

  test('all restart below the TTL under a new leader: all say so, whoever is first', () => {
    const cluster = running(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(8_000);
    cluster.lead('c');
    for (const name of ['c', 'a', 'b']) {
      cluster.start(name);
      cluster.run(1_000);
    }
    cluster.run(10_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.standing(name), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
  });

  test('a draining node goes on draining, a drained one stays drained', () => {
    const cluster = running(['a', 'b', 'c']);
    setMode(cluster, 'b', 'draining');
    setMode(cluster, 'c', 'drained');
    cluster.run(10);
    for (const name of ['b', 'c']) {
      cluster.crash(name);
      cluster.start(name);
    }
    cluster.run(5_000);
    assert.equal(cluster.standing('b'), 'draining admin_drain');
    assert.equal(cluster.standing('c'), 'drained admin_drain');
  });
});

describe('a glitch', () => {
  for (const code of [undefined, 'NO_QUORUM', 'DEADLINE', 'NETWORK_TIMEOUT'] as const) {
    test(`DA-10: 15 s without a registry (${code ?? 'silence'}) heal by themselves, whenever they begin`, () => {
      for (let phase = 0; phase < 12; phase++) {
        const cluster = running(['a', 'b', 'c']);
        cluster.run(phase * 1_000);
        cluster.cut('c', code);
        cluster.run(15_000);
        cluster.heal('c');
        cluster.run(10_000);
        assert.equal(cluster.standing('c'), 'active join');
        cluster.run(2 * ttlMs);
        assert.deepEqual(
          cluster.log.filter((line) => /lost|state|registered/.test(line)),
          [],
        );
      }
    });
  }

  test('D1, D2: renewal fails 30 times and then works: the loop lives, waits 1 to 5 s, and the flag comes at the TTL', () => {
    const cluster = running(['a', 'b']);
    const calls: number[] = [];
    const side = cluster.node('b').side;
    assert.ok(side);
    const keepAlive = side.keepAlive.bind(side);
    side.keepAlive = (lease, options, done) => {
      calls.push(cluster.nowMs);
      if (calls.length === 1 || calls.length > 31) return keepAlive(lease, options, done);
      cluster.timeline.after(0, () => done(failure('NO_QUORUM')));
    };
    cluster.run(11_000);
    const goodMs = calls[0] as number;
    cluster.run(200_000);
    const waits = calls.slice(2, 31).map((at, i) => at - (calls[i + 1] as number));
    assert.ok(
      waits.every((ms) => ms >= 750 && ms <= 5_001),
      String(waits),
    );
    assert.ok(
      waits.slice(4).every((ms) => ms >= 3_750),
      String(waits),
    );
    const at = (text: string): number =>
      Number.parseInt(cluster.log.find((line) => line.endsWith(text)) ?? '', 10) - goodMs;
    assert.equal(Math.round(at('b registration.lost') / 100), 320);
    assert.equal(cluster.standing('b'), 'drained registration_expired');
    assert.ok(calls.length > 33, 'renewal goes on');
  });
});

describe('longer than the TTL', () => {
  test('DA-11: cut off for 3 minutes: it returns drained in one step', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.cut('c');
    cluster.run(180_000);
    assert.equal(cluster.standing('c'), 'lost join');
    const standings = new Set<string>();
    const revision = cluster.registry.keyspace.range(keyRanges.roster, 1).revision;
    const cancel = cluster.registry.watch(
      onlyKey(clusterKey({ kind: 'registration', node: cluster.node('c').id })),
      revision + 1,
      {
        changed: () => standings.add(cluster.standing('c')),
        compacted: () => {},
      },
    );
    cluster.heal('c');
    cluster.run(10_000);
    cancel();
    assert.deepEqual([...standings], ['drained registration_expired'], 'never registered with its old state (D3)');
    const events = cluster.log.map((line) => line.slice(line.indexOf(' ') + 1));
    assert.deepEqual(events, [
      'c registration.lost',
      'c node.lost',
      'c node.registered',
      'c node.state drained registration_expired',
    ]);
    cluster.run(5 * ttlMs);
    assert.equal(cluster.standing('c'), 'drained registration_expired', 'it stays registered, and drained');
    setMode(cluster, 'c', 'active');
    cluster.run(1_000);
    assert.equal(cluster.node('c').host?.state?.mode, 'active');
  });

  test('DA-12: down for 5 minutes: drained as a stale restart, and active when activated', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.crash('c');
    cluster.run(300_000);
    assert.equal(cluster.row('c')?.state?.record?.lost, true);
    const { reconciled } = cluster.node('c');
    cluster.start('c');
    cluster.run(10_000);
    assert.equal(cluster.standing('c'), 'drained stale_restart');
    assert.equal(cluster.node('c').reconciled, reconciled, 'drained, it holds nothing');
    assert.equal(cluster.row('c')?.state?.record?.lost, false);
    setMode(cluster, 'c', 'active');
    cluster.run(1_000);
    assert.equal(cluster.node('c').host?.state?.mode, 'active');
    assert.equal(cluster.node('c').reconciled, reconciled + 1, 'what it holds is confirmed');
  });

  test('a node that returns the moment after its registration ran out is late, although nobody has noted it', () => {
    const cluster = running(['a', 'b']);
    cluster.crash('b');
    for (let ms = 0; ms < ttlMs && cluster.row('b')?.registration !== undefined; ms += 100) cluster.run(100);
    assert.equal(cluster.row('b')?.registration, undefined);
    assert.equal(cluster.row('b')?.state?.record?.lost, false);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'drained stale_restart');
  });

  test('DA-13, L9: all down for longer than the TTL: all are active within 30 s', () => {
    const cluster = running(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(90_000);
    cluster.lead('b');
    for (const name of ['c', 'b', 'a']) cluster.start(name);
    cluster.run(30_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.standing(name), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
  });

  test('a node that comes back when the restarted cluster has already given it up is late', () => {
    const cluster = running(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(90_000);
    cluster.lead('b');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.run(2 * ttlMs);
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'active full_cluster_restart');
    assert.equal(cluster.standing('c'), 'drained stale_restart');
  });

  test('the registry itself was away for everybody: nobody outlived anybody, all go on', () => {
    const cluster = running(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.cut(name);
    cluster.run(90_000);
    for (const name of ['a', 'b', 'c']) cluster.heal(name);
    cluster.run(15_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.standing(name), 'active full_cluster_restart');
  });

  test('one that an operator drained stays drained in every case', () => {
    const cluster = running(['a', 'b', 'c']);
    setMode(cluster, 'c', 'drained');
    cluster.cut('c');
    cluster.run(90_000);
    cluster.heal('c');
    cluster.run(10_000);
    assert.equal(cluster.standing('c'), 'drained admin_drain');
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(90_000);
    for (const name of ['a', 'b', 'c']) cluster.start(name);
    cluster.run(10_000);
    assert.equal(cluster.standing('c'), 'drained admin_drain');
  });
});
