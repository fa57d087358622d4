import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FakeConsensusGroup, nodeIdOf, injectFaults } from '../../test/fakes/fake-consensus-group.ts';
import type { Outcome } from '../base/errors.ts';
import { Random } from '../base/random.ts';
import {
  type LeaseId,
  type RangeResult,
  type Registry,
  type RegistryTransaction,
  type TransactionResult,
  onlyKey,
  withPrefix,
} from '../base/registry.ts';
import { RegistryClient, sendToManagers } from './client/registry-client.ts';

function value(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function put(key: string, lease?: LeaseId): RegistryTransaction {
  return { compare: [], then: [{ kind: 'put', key, value: value(key), ...(lease && { lease }) }], otherwise: [] };
}

function clientOf(cluster: FakeConsensusGroup, number = 100, generation = 1): RegistryClient {
  const self = { id: nodeIdOf(number), generation };
  const random = new Random(`client ${number}`);
  return new RegistryClient({
    clock: cluster.clock,
    random,
    self,
    managers: () => cluster.peers,
    send: cluster.sendAs(self),
  });
}

/** Runs until the request has ended, and returns its outcome. */
function untilEnded<T>(cluster: FakeConsensusGroup, start: (done: (outcome: Outcome<T>) => void) => void): Outcome<T> {
  let ending: Outcome<T> | undefined;
  start((outcome) => {
    assert.equal(ending, undefined, 'a request ends once');
    ending = outcome;
  });
  assert.equal(ending, undefined, 'no request ends before it has returned');
  for (let i = 0; i < 100_000 && ending === undefined; i++) cluster.timeline.step();
  assert.ok(ending !== undefined, 'the request has ended');
  return ending;
}

function codeOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : outcome.error.code;
}

/** All keys, read through the leader. */
function keysOf(cluster: FakeConsensusGroup, client: Registry): string[] {
  const outcome = untilEnded<RangeResult>(cluster, (done) => client.range(withPrefix(''), {}, done));
  assert.ok(outcome.ok);
  return outcome.value.entries.map(({ key }) => key);
}

/** The client on a manager: its requests go directly to the server of the same node. */
function clientAt(cluster: FakeConsensusGroup, at: number): RegistryClient {
  const manager = cluster.managers[at];
  assert.ok(manager !== undefined);
  const self = { ...manager.peer, generation: 1 };
  const request = (): never => assert.fail('no request goes over the network');
  return new RegistryClient({
    ...{ clock: cluster.clock, random: new Random('here'), self, managers: () => [self], localManager: () => self },
    send: sendToManagers({ clock: cluster.clock, streams: { request }, self, server: () => manager.server }),
  });
}

describe('the registry client on the leader', () => {
  const sizes = [1, 64, 65, 500, 900, 1_024, 1_025, 3_000, 20_000];
  const filled = (size: number): Uint8Array => new Uint8Array(size).map((_, i) => (i + size) % 251);

  test('writes to every replica, and keeps none of the bytes of its caller', () => {
    const cluster = new FakeConsensusGroup(2);
    cluster.lead(cluster.managers[0]);
    const client = clientAt(cluster, 0);
    const values = sizes.map(filled);
    const then = values.map((bytes, i) => ({ kind: 'put', key: `k${i}`, value: bytes }) as const);
    let outcome: Outcome<TransactionResult> | undefined;
    client.transact({ compare: [], then, otherwise: [] }, {}, (ending) => {
      outcome = ending;
    });
    for (const bytes of values) bytes.fill(0xee);
    cluster.run(1_000);
    const results = sizes.map(() => ({ kind: 'put' }));
    assert.deepEqual(outcome, { ok: true, value: { succeeded: true, epoch: '.0', revision: 1, results } });
    for (const { replica } of cluster.managers) {
      const { entries } = replica.keyspace.range(withPrefix('k'), 100);
      const isSame = entries.map((entry, i) => Buffer.from(entry.value).equals(filled(sizes[i] ?? 0)));
      assert.deepEqual(
        isSame,
        sizes.map(() => true),
      );
    }
  });

  test('returns copies of what it reads, and refuses an invalid transaction', () => {
    const cluster = new FakeConsensusGroup(2);
    cluster.lead(cluster.managers[0]);
    const client = clientAt(cluster, 0);
    untilEnded(cluster, (done) => client.transact(put('a'), {}, done));
    const read: RegistryTransaction = {
      compare: [{ key: 'a', target: 'value', is: 'equal', than: value('b') }],
      then: [],
      otherwise: [{ kind: 'read', range: onlyKey('a'), limit: 1 }],
    };
    for (let i = 0; i < 2; i++) {
      const outcome = untilEnded<TransactionResult>(cluster, (done) => client.transact(read, {}, done));
      const [first] = outcome.ok ? outcome.value.results : [];
      assert.ok(first?.kind === 'read');
      assert.deepEqual(first.entries[0]?.value, value('a'));
      first.entries[0].value.fill(0);
    }
    const twice = { ...put('a'), then: [...put('a').then, ...put('a').then] };
    assert.equal(codeOf(untilEnded(cluster, (done) => client.transact(twice, {}, done))), 'BAD_ARGUMENT');
    assert.deepEqual(keysOf(cluster, client), ['a']);
  });
});

describe('a registry of several managers', () => {
  test('is reached from any node, by the redirect of a manager that does not lead', () => {
    const cluster = new FakeConsensusGroup(3);
    cluster.lead(cluster.managers[2]);
    const client = clientOf(cluster);
    const written = untilEnded<TransactionResult>(cluster, (done) => client.transact(put('a'), {}, done));
    assert.deepEqual(written, {
      ok: true,
      value: { succeeded: true, epoch: '.0', revision: 1, results: [{ kind: 'put' }] },
    });
    const read = untilEnded<RangeResult>(cluster, (done) => client.range(onlyKey('a'), {}, done));
    assert.ok(read.ok);
    assert.deepEqual(read.value, {
      epoch: '.0',
      entries: [{ key: 'a', value: value('a'), createRevision: 1, modRevision: 1, version: 1, lease: undefined }],
      more: false,
      revision: 1,
    });
    const [manager] = cluster.managers;
    assert.equal(manager?.server?.load.pending, 0);
  });

  test('serves stale reads from a lagging replica, and other reads never', () => {
    const cluster = new FakeConsensusGroup(3);
    cluster.lagMs = 1_000;
    cluster.lead(cluster.managers[2]);
    const client = clientOf(cluster);
    untilEnded(cluster, (done) => client.transact(put('a'), {}, done));
    const stale = untilEnded<RangeResult>(cluster, (done) => client.range(onlyKey('a'), { stale: true }, done));
    assert.ok(stale.ok);
    assert.deepEqual([stale.value.entries, stale.value.revision], [[], 0]);
    assert.deepEqual(keysOf(cluster, client), ['a']);
  });

  test('ends writes with NO_QUORUM only if they did not run, otherwise with DEADLINE', () => {
    const cluster = new FakeConsensusGroup(3);
    const client = clientOf(cluster);
    const startMs = cluster.timeline.nowMs;
    assert.equal(
      codeOf(untilEnded(cluster, (done) => client.transact(put('a'), { timeoutMs: 2_000 }, done))),
      'NO_QUORUM',
    );
    assert.ok(cluster.timeline.nowMs - startMs <= 2_000);
    cluster.lead(cluster.managers[0]);
    cluster.proposals = 'refused';
    assert.equal(
      codeOf(untilEnded(cluster, (done) => client.transact(put('b'), { timeoutMs: 2_000 }, done))),
      'NO_QUORUM',
    );
    cluster.proposals = 'unacknowledged';
    assert.equal(
      codeOf(untilEnded(cluster, (done) => client.transact(put('c'), { timeoutMs: 2_000 }, done))),
      'DEADLINE',
    );
    cluster.proposals = 'acknowledged';
    assert.deepEqual(keysOf(cluster, client), ['c'], 'only the write with an unknown outcome took effect');
    assert.equal(codeOf(untilEnded(cluster, (done) => client.transact(put(''), {}, done))), 'BAD_ARGUMENT');
    client.close();
    assert.equal(codeOf(untilEnded(cluster, (done) => client.transact(put('d'), {}, done))), 'CANCELLED');
  });

  test('executes a resent write once, even after a leader change and on a replica restored from a snapshot', () => {
    const cluster = new FakeConsensusGroup(3);
    const [first, second, third] = cluster.managers;
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    cluster.lead(first);
    const client = clientOf(cluster);
    cluster.proposals = 'unacknowledged';
    let outcome: Outcome<TransactionResult> | undefined;
    const create: RegistryTransaction = {
      compare: [{ key: 'a', target: 'version', is: 'equal', than: 0 }],
      then: put('a').then,
      otherwise: [],
    };
    client.transact(create, {}, (ending) => {
      outcome = ending;
    });
    cluster.run(100);
    assert.equal(cluster.log.length, 1);
    second.kill();
    second.restart(third);
    cluster.proposals = 'acknowledged';
    first.kill();
    cluster.lead(second);
    cluster.run(5_000);
    assert.deepEqual(outcome, {
      ok: true,
      value: { succeeded: true, epoch: '.0', revision: 1, results: [{ kind: 'put' }] },
    });
    assert.equal(cluster.log.length, 2, 'the client has resent it');
    assert.equal(second.replica.keyspace.range(onlyKey('a'), 1).entries[0]?.version, 1);
  });

  test('keeps every acknowledged write, once, under random faults of managers and messages', () => {
    let acknowledged = 0;
    let uncertain = 0;
    for (let seed = 1; seed <= 8; seed++) {
      const random = new Random(`trouble ${seed}`);
      const cluster = new FakeConsensusGroup(3);
      const clients = [clientOf(cluster, 101), clientOf(cluster, 102), clientOf(cluster, 103)];
      cluster.lead(cluster.managers[0]);
      injectFaults(cluster, random.fork('faults'), 6_000);
      const endings = new Map<string, string>();
      for (let i = 0; i < 300; i++) {
        const key = `op/${i}`;
        cluster.timeline.after(random.between(0, 6_000), () =>
          random.pick(clients).transact(put(key), { timeoutMs: 3_000 }, (outcome) => {
            assert.ok(!endings.has(key));
            endings.set(key, codeOf(outcome));
          }),
        );
      }
      cluster.run(12_000);
      assert.equal(endings.size, 300);
      const { entries } = (cluster.leader ?? assert.fail()).replica.keyspace.range(withPrefix(''), 1_000);
      const versions = new Map(entries.map(({ key, version }) => [key, version]));
      for (const [key, ending] of endings) {
        const times = versions.get(key) ?? 0;
        assert.ok(times <= 1, `seed ${seed}: ${key} was executed ${times} times`);
        if (ending === 'ok') assert.equal(times, 1, `seed ${seed}: ${key} was acknowledged and is lost`);
        else if (ending === 'NO_QUORUM' || ending === 'CAPACITY')
          assert.equal(times, 0, `seed ${seed}: ${key} took effect`);
        else assert.match(ending, /^(DEADLINE|NETWORK_TIMEOUT)$/);
        acknowledged += ending === 'ok' ? 1 : 0;
        uncertain += ending === 'DEADLINE' || ending === 'NETWORK_TIMEOUT' ? 1 : 0;
      }
    }
    assert.ok(acknowledged > 1_500, `only ${acknowledged} writes were acknowledged`);
    assert.ok(uncertain < 500, `${uncertain} writes ended with an unknown outcome`);
  });

  test('sends a watcher each revision once and in order, under random faults of managers', () => {
    for (let seed = 1; seed <= 8; seed++) {
      const random = new Random(`watch ${seed}`);
      const cluster = new FakeConsensusGroup(3);
      const writer = clientOf(cluster, 101);
      const watcher = clientOf(cluster, 102);
      cluster.lead(cluster.managers[0]);
      injectFaults(cluster, random.fork('faults'), 5_000);
      const seen: string[] = [];
      watcher.watch(
        withPrefix('even/'),
        { revision: 1 },
        {
          changed: (changes, revision) => seen.push(`${revision} ${changes.map((one) => one.kind).join()}`),
          compacted: () => assert.fail('nothing was compacted'),
        },
      );
      for (let i = 0; i < 200; i++)
        cluster.timeline.after(random.between(0, 5_000), () =>
          writer.transact(put(i % 2 === 0 ? `even/${i % 10}` : 'odd'), {}, () => {}),
        );
      cluster.run(40_000);
      const part = (cluster.leader ?? assert.fail()).replica.keyspace.changesFrom(withPrefix('even/'), 1);
      assert.ok(part.kind === 'changes' && part.revisions.length > 50);
      assert.deepEqual(
        seen,
        part.revisions.map(({ revision }) => `${revision} put`),
        `seed ${seed}`,
      );
      watcher.close();
    }
  });
});

describe('a registry lease', () => {
  function clusterWithLease(): { cluster: FakeConsensusGroup; client: RegistryClient; lease: LeaseId } {
    const cluster = new FakeConsensusGroup(3);
    cluster.lead(cluster.managers[0]);
    const client = clientOf(cluster);
    const granted = untilEnded<{ lease: LeaseId }>(cluster, (done) => client.grant(10_000, {}, done));
    assert.ok(granted.ok);
    const { lease } = granted.value;
    assert.ok(untilEnded(cluster, (done) => client.transact(put('mine', lease), {}, done)).ok);
    return { cluster, client, lease };
  }

  test('expires a full TTL after the last renewal that the leader received', () => {
    const { cluster, client, lease } = clusterWithLease();
    cluster.run(9_000);
    assert.equal(codeOf(untilEnded(cluster, (done) => client.keepAlive(lease, {}, done))), 'ok');
    cluster.run(9_900);
    assert.deepEqual(keysOf(cluster, client), ['mine']);
    cluster.run(200);
    assert.deepEqual(keysOf(cluster, client), []);
    assert.equal(codeOf(untilEnded(cluster, (done) => client.keepAlive(lease, {}, done))), 'LEASE_EXPIRED');
    assert.equal(codeOf(untilEnded(cluster, (done) => client.revoke(lease, {}, done))), 'ok');
    assert.equal(codeOf(untilEnded(cluster, (done) => client.transact(put('x', lease), {}, done))), 'LEASE_EXPIRED');
  });

  test('lasts a full TTL more after a leader change', () => {
    const { cluster, client } = clusterWithLease();
    cluster.run(9_000);
    cluster.managers[0]?.kill();
    cluster.run(500);
    cluster.lead(cluster.managers[1]);
    cluster.run(9_900);
    assert.deepEqual(keysOf(cluster, client), ['mine']);
    cluster.run(200);
    assert.deepEqual(keysOf(cluster, client), []);
  });

  test('outlives a time without a quorum, and a renewal that races its end succeeds if the end is not committed', () => {
    const { cluster, client, lease } = clusterWithLease();
    cluster.proposals = 'refused';
    cluster.commitMs = 300;
    cluster.run(10_000);
    let ending = '';
    client.keepAlive(lease, {}, (outcome) => {
      ending = codeOf(outcome);
    });
    cluster.run(100);
    assert.equal(ending, '', 'the renewal waits for the outcome of the proposed end');
    cluster.run(400);
    assert.equal(ending, 'ok');
    cluster.proposals = 'acknowledged';
    cluster.run(9_000);
    assert.deepEqual(keysOf(cluster, client), ['mine']);
    cluster.run(2_000);
    assert.deepEqual(keysOf(cluster, client), []);
  });

  test('has expired for a renewal that races an end which is committed', () => {
    const { cluster, client, lease } = clusterWithLease();
    cluster.commitMs = 300;
    cluster.run(9_995);
    let ending = '';
    client.keepAlive(lease, {}, (outcome) => {
      ending = codeOf(outcome);
    });
    cluster.run(100);
    assert.equal(ending, '');
    cluster.run(400);
    assert.equal(ending, 'LEASE_EXPIRED');
  });

  test('is ended by retries until one is committed', () => {
    const { cluster, client } = clusterWithLease();
    cluster.proposals = 'refused';
    cluster.run(15_000);
    cluster.proposals = 'acknowledged';
    cluster.run(1_000);
    assert.deepEqual(keysOf(cluster, client), []);
  });
});

describe('a registry client', () => {
  test('refuses requests and watches beyond its limits with CAPACITY', () => {
    const cluster = new FakeConsensusGroup(1);
    cluster.lead(cluster.managers[0]);
    const self = { id: nodeIdOf(7), generation: 1 };
    const parts = { clock: cluster.clock, random: new Random('bounds'), self, managers: () => cluster.peers };
    const client = new RegistryClient({ ...parts, send: cluster.sendAs(self), callsMax: 2, watchesMax: 1 });
    const endings: string[] = [];
    for (let i = 0; i < 3; i++) client.transact(put('a'), {}, (outcome) => endings.push(codeOf(outcome)));
    cluster.run(1_000);
    assert.deepEqual(endings, ['CAPACITY', 'ok', 'ok']);
    const events = { changed: () => {}, compacted: () => {} };
    const cancel = client.watch(withPrefix(''), { revision: 1 }, events);
    assert.throws(() => client.watch(withPrefix(''), { revision: 1 }, events), /at most 1/);
    cancel();
    client.watch(withPrefix(''), { revision: 1 }, events);
    client.close();
  });

  test('cannot write under the id of another node, and is FENCED by a later generation', () => {
    const cluster = new FakeConsensusGroup(1);
    cluster.lead(cluster.managers[0]);
    const self = { id: nodeIdOf(7), generation: 2 };
    const parts = { clock: cluster.clock, random: new Random('names'), managers: () => cluster.peers };
    const forger = new RegistryClient({ ...parts, self, send: cluster.sendAs({ id: nodeIdOf(8), generation: 2 }) });
    assert.equal(codeOf(untilEnded(cluster, (done) => forger.transact(put('a'), {}, done))), 'FORBIDDEN');
    assert.equal(codeOf(untilEnded(cluster, (done) => clientOf(cluster, 7, 2).transact(put('a'), {}, done))), 'ok');
    assert.equal(codeOf(untilEnded(cluster, (done) => clientOf(cluster, 7, 1).transact(put('a'), {}, done))), 'FENCED');
  });
});
