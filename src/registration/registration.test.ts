/** Registration on a shared registry: restarts, glitches, expiry, late returns (scenarios DA-1, 2, 9 to 13). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, success } from '../base/errors.ts';
import { type LeaseId, onlyKey } from '../base/registry.ts';
import { clusterKey, keyRanges } from '../registry/cluster-keys.ts';
import {
  RegistrationTestCluster,
  startedCluster,
  setMode,
  ttlMs,
} from '../../test/support/registration/registration-cluster.ts';

describe('a new node', () => {
  test('boots if it is the first, joins otherwise, and becomes active', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => cluster.statusOf(name)),
      ['active boot', 'active join', 'active join'],
    );
    assert.equal(cluster.epoch(), 1);
  });

  test('joins drained with `firstJoin: drained`', () => {
    const cluster = startedCluster(['a']);
    const other = new RegistrationTestCluster(['a', 'b'], { firstJoin: 'drained' });
    other.start('a');
    other.run(1_000);
    other.start('b');
    other.run(1_000);
    assert.equal(other.statusOf('a'), 'active boot');
    assert.equal(other.statusOf('b'), 'drained join');
    assert.equal(cluster.statusOf('a'), 'active boot');
  });

  test('reconciles before it is active, and misses no change meanwhile (D9, D12)', () => {
    const cluster = new RegistrationTestCluster(['a']);
    const node = cluster.node('a');
    let finish = (): void => {};
    node.reconcile = (done) => {
      finish = () => done(success(undefined));
    };
    cluster.start('a');
    cluster.run(5_000);
    assert.equal(cluster.statusOf('a'), 'joining boot');
    assert.equal(node.reconcileCount, 1);
    finish();
    cluster.run(10);
    assert.equal(cluster.statusOf('a'), 'active boot');
    setMode(cluster, 'a', 'drained');
    cluster.run(10);
    assert.equal(node.host?.state?.mode, 'drained');
  });

  test('does not become active while the registry fails (D8)', () => {
    const cluster = new RegistrationTestCluster(['a', 'b']);
    cluster.start('a');
    cluster.run(1_000);
    cluster.start('b');
    cluster.cut('b', 'NO_QUORUM');
    cluster.run(120_000);
    assert.equal(cluster.entry('b'), undefined);
    cluster.heal('b');
    cluster.run(6_000);
    assert.equal(cluster.statusOf('b'), 'active join');
  });

  test('is drained if its state record is malformed, even after a full restart', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.crash('b');
    cluster.write({
      kind: 'put',
      key: clusterKey({ kind: 'state', node: cluster.node('b').id }),
      value: new Uint8Array([1]),
    });
    cluster.start('b');
    cluster.run(5_000);
    assert.equal(cluster.statusOf('b'), 'drained fast_restart');
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
    assert.equal(cluster.statusOf('a'), 'drained full_cluster_restart');
  });

  test('waits with an event while the epoch record is malformed', () => {
    const cluster = startedCluster(['a', 'b']);
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

describe('a restart within the TTL', () => {
  test('DA-1: takes over the registration, reconciles and is active', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    const { reconcileCount } = cluster.node('b');
    const before = cluster.entry('b')?.registration?.entry;
    cluster.crash('b');
    cluster.run(5_000);
    cluster.start('b');
    cluster.run(5_000);
    const after = cluster.entry('b')?.registration?.entry;
    assert.equal(cluster.statusOf('b'), 'active fast_restart');
    assert.ok(cluster.node('b').reconcileCount > reconcileCount);
    assert.equal(after?.createRevision, before?.createRevision, 'it was registered without a gap');
    assert.notEqual(after?.lease, before?.lease);
    const renewals: boolean[] = [];
    cluster.registry.keepAlive(before?.lease as LeaseId, {}, ({ ok }) => renewals.push(ok));
    cluster.run(0);
    assert.deepEqual(renewals, [false], 'the lease of the earlier process is revoked');
    cluster.run(3 * ttlMs);
    assert.equal(cluster.statusOf('b'), 'active fast_restart');
    assert.deepEqual(
      cluster.log.filter((line) => line.includes('lost')),
      [],
    );
  });

  test('DA-2: of the leader is a fast restart, because the others stayed registered', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.crash('a');
    cluster.run(1_500);
    cluster.lead('b');
    cluster.run(3_000);
    cluster.start('a');
    cluster.run(5_000);
    assert.equal(cluster.statusOf('a'), 'active fast_restart');
    assert.equal(cluster.epoch(), 1);
  });

  test('of all nodes under a new leader is a full restart for each of them', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(8_000);
    cluster.lead('c');
    for (const name of ['c', 'a', 'b']) {
      cluster.start(name);
      cluster.run(1_000);
    }
    cluster.run(10_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.statusOf(name), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
  });

  test('leaves a draining node draining and a drained one drained', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    setMode(cluster, 'b', 'draining');
    setMode(cluster, 'c', 'drained');
    cluster.run(10);
    for (const name of ['b', 'c']) {
      cluster.crash(name);
      cluster.start(name);
    }
    cluster.run(5_000);
    assert.equal(cluster.statusOf('b'), 'draining admin_drain');
    assert.equal(cluster.statusOf('c'), 'drained admin_drain');
  });
});

describe('a failure of renewals', () => {
  for (const code of [undefined, 'NO_QUORUM', 'DEADLINE', 'NETWORK_TIMEOUT'] as const) {
    test(`DA-10: of 15 s (${code ?? 'no reply'}) changes nothing, whenever it begins`, () => {
      for (let phase = 0; phase < 12; phase++) {
        const cluster = startedCluster(['a', 'b', 'c']);
        cluster.run(phase * 1_000);
        cluster.cut('c', code);
        cluster.run(15_000);
        cluster.heal('c');
        cluster.run(10_000);
        assert.equal(cluster.statusOf('c'), 'active join');
        cluster.run(2 * ttlMs);
        assert.deepEqual(
          cluster.log.filter((line) => /lost|state|registered/.test(line)),
          [],
        );
      }
    });
  }

  test('D1, D2: is retried with a backoff of 1 to 5 s for ever, and ends the registration at the TTL', () => {
    const cluster = startedCluster(['a', 'b']);
    const calls: number[] = [];
    const connection = cluster.node('b').connection;
    assert.ok(connection);
    const keepAlive = connection.keepAlive.bind(connection);
    connection.keepAlive = (lease, options, done) => {
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
    assert.equal(cluster.statusOf('b'), 'drained registration_expired');
    assert.ok(calls.length > 33, 'renewal continues');
  });
});

describe('an absence longer than the TTL', () => {
  test('DA-11: by a partition of 3 minutes ends with a drained node, in one step', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.cut('c');
    cluster.run(180_000);
    assert.equal(cluster.statusOf('c'), 'lost join');
    const statuses = new Set<string>();
    const revision = cluster.registry.keyspace.range(keyRanges.nodeDirectory, 1).revision;
    const cancel = cluster.registry.watch(
      onlyKey(clusterKey({ kind: 'registration', node: cluster.node('c').id })),
      { revision: revision + 1 },
      {
        changed: () => statuses.add(cluster.statusOf('c')),
        compacted: () => {},
      },
    );
    cluster.heal('c');
    cluster.run(10_000);
    cancel();
    assert.deepEqual(
      [...statuses],
      ['drained registration_expired'],
      'it was never registered with its old state (D3)',
    );
    const events = cluster.log.map((line) => line.slice(line.indexOf(' ') + 1));
    assert.deepEqual(events, [
      'c registration.lost',
      'c node.lost',
      'c node.registered',
      'c node.state drained registration_expired',
    ]);
    cluster.run(5 * ttlMs);
    assert.equal(cluster.statusOf('c'), 'drained registration_expired', 'it stays registered, and drained');
    setMode(cluster, 'c', 'active');
    cluster.run(1_000);
    assert.equal(cluster.node('c').host?.state?.mode, 'active');
  });

  test('DA-12: by a crash of 5 minutes ends as a stale restart, drained until an operator activates it', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.crash('c');
    cluster.run(300_000);
    assert.equal(cluster.entry('c')?.state?.record?.lost, true);
    const { reconcileCount } = cluster.node('c');
    cluster.start('c');
    cluster.run(10_000);
    assert.equal(cluster.statusOf('c'), 'drained stale_restart');
    assert.equal(cluster.node('c').reconcileCount, reconcileCount, 'a drained node holds nothing');
    assert.equal(cluster.entry('c')?.state?.record?.lost, false);
    setMode(cluster, 'c', 'active');
    cluster.run(1_000);
    assert.equal(cluster.node('c').host?.state?.mode, 'active');
    assert.equal(cluster.node('c').reconcileCount, reconcileCount + 1, 'it reconciles');
  });

  test('is a late return at once, even before the leader has marked the node as lost', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.crash('b');
    for (let ms = 0; ms < ttlMs && cluster.entry('b')?.registration !== undefined; ms += 100) cluster.run(100);
    assert.equal(cluster.entry('b')?.registration, undefined);
    assert.equal(cluster.entry('b')?.state?.record?.lost, false);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.statusOf('b'), 'drained stale_restart');
  });

  test('DA-13, L9: of all nodes ends with all active within 30 s', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(90_000);
    cluster.lead('b');
    for (const name of ['c', 'b', 'a']) cluster.start(name);
    cluster.run(30_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.statusOf(name), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
  });

  test('is a late return after a full restart that the node missed', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(90_000);
    cluster.lead('b');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.run(2 * ttlMs);
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.statusOf('b'), 'active full_cluster_restart');
    assert.equal(cluster.statusOf('c'), 'drained stale_restart');
  });

  test('of the registry is a full restart: no registration survived, all nodes are active', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    for (const name of ['a', 'b', 'c']) cluster.cut(name);
    cluster.run(90_000);
    for (const name of ['a', 'b', 'c']) cluster.heal(name);
    cluster.run(15_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.statusOf(name), 'active full_cluster_restart');
  });

  test('leaves a node drained that an operator has drained', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    setMode(cluster, 'c', 'drained');
    cluster.cut('c');
    cluster.run(90_000);
    cluster.heal('c');
    cluster.run(10_000);
    assert.equal(cluster.statusOf('c'), 'drained admin_drain');
    for (const name of ['a', 'b', 'c']) cluster.crash(name);
    cluster.run(90_000);
    for (const name of ['a', 'b', 'c']) cluster.start(name);
    cluster.run(10_000);
    assert.equal(cluster.statusOf('c'), 'drained admin_drain');
  });
});
