import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import type { Outcome } from '../base/errors.ts';
import { Random } from '../base/random.ts';
import { compareEpochs, groupIdFrom, isRegistryEpoch, registryEpoch } from '../base/registry-epoch.ts';
import { type LeaseId, type RegistryEpoch, type WatchStart, onlyKey, withPrefix } from '../base/registry.ts';
import { FakeConsensusGroup, type FakeManager, nodeIdOf } from '../../test/fakes/fake-consensus-group.ts';
import { RegistryClient } from './client/registry-client.ts';
import { encodeBackup, restoreBackup } from './replica/registry-backup.ts';
import { GroupFounder } from './server/group-founder.ts';

const [groupA, groupB] = ['aaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb'];

function founderOf({ clock }: FakeConsensusGroup, group: FakeManager, groupId: string): GroupFounder {
  return new GroupFounder({ clock, group, replica: group.replica, newGroupId: () => groupId });
}

/** A group of managers with a client on a node of its own. */
class Scene {
  readonly group: FakeConsensusGroup;
  readonly client: RegistryClient;
  readonly founders: readonly GroupFounder[];

  constructor(groupId: string, managers = 1) {
    this.group = new FakeConsensusGroup(managers);
    this.founders = this.group.managers.map((manager) => founderOf(this.group, manager, groupId));
    const self = { id: nodeIdOf(99), generation: 1 };
    const send = this.group.sendAs(self);
    const { clock } = this.group;
    const random = new Random('epochs');
    this.client = new RegistryClient({ clock, random, self, managers: () => this.group.peers, send });
    this.group.lead(this.leader);
    this.group.run(100);
  }

  get leader(): FakeManager {
    return this.group.managers[0] as FakeManager;
  }

  wait<T>(call: (done: (outcome: Outcome<T>) => void) => void): Outcome<T> {
    let ended: Outcome<T> | undefined;
    call((outcome) => (ended = outcome));
    this.group.run(6_000);
    assert.ok(ended, 'the call has ended');
    return ended;
  }

  put(key: string, lease?: LeaseId): void {
    const op = { kind: 'put', key, value: Uint8Array.of(1), ...(lease === undefined ? {} : { lease }) } as const;
    const outcome = this.wait<unknown>((done) =>
      this.client.transact({ compare: [], then: [op], otherwise: [] }, {}, done),
    );
    assert.ok(outcome.ok);
  }

  grant(): LeaseId {
    const outcome = this.wait<{ readonly lease: LeaseId }>((done) => this.client.grant(60_000, {}, done));
    assert.ok(outcome.ok);
    return outcome.value.lease;
  }

  epoch(): RegistryEpoch {
    const outcome = this.wait<{ readonly epoch: RegistryEpoch }>((done) => this.client.range(onlyKey('a'), {}, done));
    assert.ok(outcome.ok);
    return outcome.value.epoch;
  }

  /** What a watch receives within some seconds. */
  watch(start: WatchStart): string[] {
    const received: string[] = [];
    const cancel = this.client.watch(withPrefix(''), start, {
      changed: (_, revision) => received.push(`revision ${revision}`),
      compacted: () => received.push('compacted'),
    });
    this.group.run(6_000);
    cancel();
    return received;
  }

  restore(backup: Uint8Array): void {
    const request = { backup, cluster: 'c', id: 'restore', timeoutMs: 5_000 };
    assert.ok(this.wait<void>((done) => restoreBackup(this.leader, request, done)).ok);
  }
}

describe('epochs of a registry', () => {
  test('compare restores of one group only', () => {
    const [first, restored] = [registryEpoch(groupA, 0), registryEpoch(groupA, 1)];
    assert.equal(compareEpochs(first, first), 'same');
    assert.equal(compareEpochs(first, restored), 'older');
    assert.equal(compareEpochs(restored, first), 'newer');
    assert.equal(compareEpochs(first, registryEpoch(groupB, 0)), 'foreign');
    assert.equal(compareEpochs(first, registryEpoch('', 0)), 'newer', 'a replica that has applied nothing');
    assert.ok(isRegistryEpoch(first) && isRegistryEpoch('.0') && !isRegistryEpoch('a.0') && !isRegistryEpoch(groupA));
    assert.equal(groupIdFrom(Uint8Array.of(0, 255, 16, 1, 2, 3, 4, 5)), '00ff100102030405');
  });

  test('a group is named once, by its first leader', () => {
    const scene = new Scene(groupA, 3);
    assert.equal(scene.epoch(), `${groupA}.0`);
    const [, second] = scene.group.managers;
    scene.group.lead(second);
    scene.group.run(100);
    assert.equal(scene.epoch(), `${groupA}.0`);
    const named = scene.group.log.filter(({ command }) => Buffer.from(command).includes(groupA));
    assert.equal(named.length, 1, 'the second leader proposed no id');
  });

  test('a leader whose proposal failed names the group later', () => {
    const scene = new Scene(groupA);
    const other = new FakeConsensusGroup(1);
    const [manager] = other.managers as [FakeManager];
    founderOf(other, manager, groupA);
    other.proposals = 'refused';
    other.lead(manager);
    other.run(200);
    assert.equal(manager.replica.keyspace.groupId, '');
    other.proposals = 'acknowledged';
    other.run(1_000);
    assert.equal(manager.replica.keyspace.epoch, scene.epoch());
  });

  test('a watch of another group ends as compacted instead of waiting for its revision', () => {
    const former = new Scene(groupA);
    for (const key of ['a', 'b', 'c']) former.put(key);
    const epoch = former.epoch();
    const next = new Scene(groupB);
    next.put('a');
    assert.deepEqual(next.watch({ revision: 4, epoch }), ['compacted']);
    assert.deepEqual(next.watch({ revision: 1, epoch }), ['compacted'], 'a revision that exists here, too');
    assert.deepEqual(next.watch({ revision: 1, epoch: next.epoch() }), ['revision 1']);
  });

  test('a restore starts another epoch, and keeps the id of the group', () => {
    const scene = new Scene(groupA);
    scene.put('a');
    const backup = encodeBackup(scene.leader.replica, 'c');
    const before = scene.epoch();
    scene.restore(backup);
    assert.equal(scene.epoch(), `${groupA}.1`);
    assert.deepEqual(scene.watch({ revision: 2, epoch: before }), ['compacted']);
    scene.restore(encodeBackup(scene.leader.replica, 'c'));
    assert.equal(scene.epoch(), `${groupA}.2`);
    const other = new Scene(groupB);
    other.restore(backup);
    assert.equal(other.epoch(), `${groupB}.1`, 'the backup of another group');
  });

  test('a manager that lags behind a restore lets a newer watch wait', () => {
    const scene = new Scene(groupA, 2);
    scene.put('a');
    const [, follower] = scene.group.managers as [FakeManager, FakeManager];
    const received: string[] = [];
    const watch = (epoch: RegistryEpoch): void =>
      follower.server?.handle(
        { id: nodeIdOf(99), generation: 1 },
        { kind: 'registryWatch', ...withPrefix(''), fromRevision: 1, epoch, waitMs: 1_000 },
        new Uint8Array(),
        2_000,
        (outcome) => received.push(outcome.ok ? 'reply' : outcome.error.code),
      );
    watch(registryEpoch(groupA, 1));
    scene.group.run(500);
    assert.deepEqual(received, [], 'it waits');
    scene.group.run(1_000);
    assert.deepEqual(received, ['reply'], 'it ends with its time');
  });

  test('a lease of a former group is unknown to a new one', () => {
    const former = new Scene(groupA);
    const next = new Scene(groupB);
    const [lease, other] = [former.grant(), next.grant()];
    assert.equal(lease, `${groupA}.0:1`);
    assert.equal(other, `${groupB}.0:1`);
    next.put('mine', other);
    const renewal = next.wait<unknown>((done) => next.client.keepAlive(lease, {}, done));
    assert.equal(!renewal.ok && renewal.error.code, 'LEASE_EXPIRED');
  });
});
