import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { idOf, voterOf } from '../../../test/support/consensus/consensus-cluster.ts';
import { AssertionFailed } from '../../base/assert.ts';
import { isRemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { ConfigurationLog, configurationAfter } from './configuration-log.ts';
import type { GroupMember } from './state-machine.ts';
import { decodeConfiguration, encodeConfiguration } from './storage-format.ts';

function member(key: string, standing: GroupMember['standing'] = 'voter'): GroupMember {
  return { ...voterOf(key), standing };
}

const voters = ['n1', 'n2', 'n3'].map((key) => member(key));
const ids = (...keys: readonly string[]): ReadonlySet<NodeId> => new Set(keys.map(idOf));

describe('the configuration log', () => {
  test('uses a configuration from its entry on, and undoes it when truncated', () => {
    const log = new ConfigurationLog({ index: 0, members: voters });
    log.append(5, [...voters, member('n4', 'syncing')]);
    log.append(8, [...voters, member('n4')]);
    assert.equal(log.voters.length, 4);
    assert.equal(log.index, 8);
    log.truncate(9);
    assert.equal(log.index, 8);
    log.truncate(6);
    assert.equal(log.index, 5);
    assert.equal(log.voters.length, 3);
    assert.throws(() => log.append(5, voters), AssertionFailed);
  });

  test('returns earlier configurations until a snapshot holds them', () => {
    const log = new ConfigurationLog({ index: 0, members: voters.slice(0, 1) });
    log.append(5, voters.slice(0, 2));
    log.append(8, voters);
    assert.deepEqual(
      [0, 4, 5, 7, 8, 99].map((index) => log.at(index).length),
      [1, 1, 2, 2, 3, 3],
    );
    log.compact(6);
    assert.deepEqual([log.at(6).length, log.at(8).length], [2, 3]);
    assert.throws(() => log.at(5), AssertionFailed);
    assert.throws(() => log.truncate(6), AssertionFailed);
  });

  test('counts only configured voters in a majority', () => {
    const log = new ConfigurationLog({
      index: 0,
      members: [...voters, member('n4', 'syncing'), member('n5', 'syncing')],
    });
    assert.equal(log.majority, 2);
    assert.equal(log.isMajority(ids('n1', 'n2')), true);
    assert.equal(log.isMajority(ids('n1', 'n4', 'n5', 'n9')), false);
    assert.equal(new ConfigurationLog({ index: 0, members: [] }).isMajority(ids('n1')), false);
    assert.equal(new ConfigurationLog({ index: 0, members: [...voters, member('n4')] }).majority, 3);
  });

  test('survives encoding and decoding', () => {
    const members = [...voters, member('n4', 'syncing')];
    assert.deepEqual(decodeConfiguration(encodeConfiguration(members)), members);
  });
});

describe('configurationAfter', () => {
  const never = (): boolean => false;
  const always = (): boolean => true;
  const isRefused = (result: unknown): boolean => isRemusterError(result, 'PRECONDITION');

  test('adds syncing members, promotes caught-up ones, and removes', () => {
    const added = configurationAfter(voters, { kind: 'add', member: member('n4') }, never) as readonly GroupMember[];
    assert.deepEqual(added.at(-1), member('n4', 'syncing'));
    const promoted = configurationAfter(added, { kind: 'promote', id: idOf('n4') }, always);
    assert.deepEqual(promoted, [...voters, member('n4')]);
    assert.deepEqual(configurationAfter(voters, { kind: 'remove', id: idOf('n1') }, never), voters.slice(1));
  });

  test('refuses an invalid change with a reason', () => {
    const syncing = [...voters, member('n4', 'syncing')];
    assert.ok(isRefused(configurationAfter(voters, { kind: 'add', member: member('n1') }, always)));
    assert.ok(isRefused(configurationAfter(voters, { kind: 'add', member: { ...member('n9'), name: 'n1' } }, always)));
    assert.ok(isRefused(configurationAfter(syncing, { kind: 'promote', id: idOf('n4') }, never)));
    assert.ok(isRefused(configurationAfter(voters, { kind: 'promote', id: idOf('n1') }, always)));
    assert.ok(isRefused(configurationAfter(voters, { kind: 'promote', id: idOf('n9') }, always)));
    assert.ok(isRefused(configurationAfter(voters, { kind: 'remove', id: idOf('n9') }, always)));
    const last = [member('n1'), member('n2', 'syncing')];
    assert.ok(isRefused(configurationAfter(last, { kind: 'remove', id: idOf('n1') }, always)));
    const full = Array.from({ length: 64 }, (_, i) => member(`n${i + 1}`));
    assert.ok(isRefused(configurationAfter(full, { kind: 'add', member: member('n99') }, always)));
  });
});
