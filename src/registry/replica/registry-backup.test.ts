import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FakeConsensusGroup, nodeIdOf } from '../../../test/fakes/fake-consensus-group.ts';
import { isRemusterError, type Outcome } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import { type LeaseId, type RegistryOp, withPrefix } from '../../base/registry.ts';
import { encodeBackup, decodeBackup, restoreBackup } from './registry-backup.ts';
import { RegistryClient } from '../client/registry-client.ts';

const cluster = 'east';

/** Three managers and a client that writes, backs up and restores. */
class BackupHarness {
  readonly fake = new FakeConsensusGroup(3);
  readonly client: RegistryClient;

  constructor() {
    const self = { id: nodeIdOf(50), generation: 1 };
    const { clock, peers } = this.fake;
    const parts = { clock, random: new Random('backup'), self, managers: () => peers };
    this.client = new RegistryClient({ ...parts, send: this.fake.sendAs(self) });
    this.fake.lead(this.fake.managers[0]);
  }

  get leader() {
    return this.fake.leader ?? assert.fail('a manager leads');
  }

  write(...then: readonly RegistryOp[]): void {
    this.client.transact({ compare: [], then, otherwise: [] }, {}, (outcome) => assert.ok(outcome.ok));
    this.fake.run(100);
  }

  put(key: string, bytes: number, lease?: LeaseId): void {
    this.write({ kind: 'put', key, value: new Uint8Array(bytes).fill(7), ...(lease && { lease }) });
  }

  restore(backup: Uint8Array, id = 'r1'): string {
    let ending = '';
    restoreBackup(this.leader, { backup, cluster, id, timeoutMs: 1_000 }, (outcome: Outcome<void>) => {
      ending = outcome.ok ? 'ok' : outcome.error.code;
    });
    this.fake.run(1_000);
    return ending;
  }

  keys(): string[][] {
    return this.fake.managers.map(({ replica }) =>
      replica.keyspace.range(withPrefix(''), 100).entries.map(({ key }) => key),
    );
  }
}

function corruptAt(backup: Uint8Array, at: number): Uint8Array {
  const bytes = Uint8Array.from(backup);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes;
}

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (isRemusterError(error)) return error.code;
    throw error;
  }
  return 'nothing';
}

describe('a backup', () => {
  test('restores keys and leases on all replicas, in several parts if it is large', () => {
    const scene = new BackupHarness();
    scene.client.grant(5_000, {}, () => {});
    scene.fake.run(100);
    for (const key of ['a', 'b', 'c']) scene.put(key, 900_000);
    scene.put('held', 10, '1' as LeaseId);
    const backup = encodeBackup(scene.leader.replica, cluster);
    scene.put('d', 1);
    scene.write({ kind: 'delete', range: withPrefix('a') });
    scene.fake.run(4_000);
    const seen: string[] = [];
    scene.client.watch(
      withPrefix(''),
      { revision: scene.leader.replica.keyspace.revision + 1 },
      {
        changed: () => seen.push('changed'),
        compacted: (oldest) => seen.push(`compacted ${oldest}`),
      },
    );
    scene.fake.run(100);
    const before = scene.fake.log.length;
    assert.equal(scene.restore(backup), 'ok');
    assert.ok(scene.fake.log.length - before >= 3);
    assert.deepEqual(
      scene.keys(),
      Array.from({ length: 3 }, () => ['a', 'b', 'c', 'held']),
    );
    assert.deepEqual(seen, [`compacted ${scene.leader.replica.keyspace.revision + 1}`]);
    scene.fake.run(3_500);
    assert.equal(scene.leader.replica.keyspace.keyCount, 4, 'its leases have their full TTL again');
    scene.fake.run(1_500);
    assert.deepEqual(scene.keys()[0], ['a', 'b', 'c']);
  });

  test('that is corrupt, foreign or of another cluster is refused with its error code and changes nothing', () => {
    const scene = new BackupHarness();
    scene.put('a', 10);
    const backup = encodeBackup(scene.leader.replica, cluster);
    scene.put('b', 10);
    const last = backup.length - 1;
    assert.equal(scene.restore(corruptAt(backup, last), 'x1'), 'STORE_CORRUPT');
    assert.equal(scene.restore(backup.subarray(0, last), 'x2'), 'STORE_CORRUPT');
    assert.equal(scene.restore(corruptAt(backup, 0), 'x3'), 'BAD_ARGUMENT');
    assert.equal(scene.restore(corruptAt(backup, 8), 'x4'), 'INCOMPATIBLE_VERSION');
    assert.equal(scene.restore(encodeBackup(scene.leader.replica, 'west'), 'x5'), 'PRECONDITION');
    assert.deepEqual(
      scene.keys(),
      Array.from({ length: 3 }, () => ['a', 'b']),
    );
    assert.equal(
      codeOf(() => decodeBackup(new TextEncoder().encode('{"hello": "world"}'), cluster)),
      'BAD_ARGUMENT',
    );
    for (let at = 0; at < backup.length; at += 3)
      assert.notEqual(
        codeOf(() => decodeBackup(corruptAt(backup, at), cluster)),
        'nothing',
        `byte ${at}`,
      );
  });

  test('whose restore is in progress is abandoned when another restore starts', () => {
    const scene = new BackupHarness();
    for (const key of ['a', 'b']) scene.put(key, 900_000);
    const backup = encodeBackup(scene.leader.replica, cluster);
    scene.write({ kind: 'delete', range: withPrefix('a') });
    let first = '';
    restoreBackup(scene.leader, { backup, cluster, id: 'r1', timeoutMs: 1_000 }, (outcome) => {
      first = outcome.ok ? 'ok' : outcome.error.code;
    });
    scene.fake.run(1);
    assert.equal(scene.restore(backup, 'r2'), 'ok');
    assert.equal(first, 'PRECONDITION');
    assert.deepEqual(
      scene.keys(),
      Array.from({ length: 3 }, () => ['a', 'b']),
    );
  });
});
