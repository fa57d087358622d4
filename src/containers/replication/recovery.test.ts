/** With which state an owner starts, or why it cannot start. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { parseNodeId } from '../../base/ids.ts';
import type { ContainerRecord, PoolDurability } from '../../placement/state/container-records.ts';
import { type ReplicaMeta, emptyMeta } from './replica-layout.ts';
import { recoveredMeta } from './recovery.ts';

const [f1, f2] = [fenceOf(1, 1), fenceOf(1, 2)];

describe('an owner', () => {
  const self = { node: parseNodeId('a'.repeat(32)), generation: 2 };
  const other = { node: parseNodeId('b'.repeat(32)), generation: 2 };
  const stored: ReplicaMeta = { slot: { fence: f1, snapshot: 0 }, position: { fence: f1, seq: 3 }, maxFence: f1 };
  const base: ContainerRecord = {
    owner: self,
    fence: f2,
    opening: 'recover',
    phase: 'opening',
    copies: [self.node],
    inSync: [self],
    move: undefined,
    moduleVersion: 0,
    failures: 0,
    note: '',
  };

  function recover(
    record: Partial<ContainerRecord>,
    meta = stored,
    more: { durability?: PoolDurability; isCorrupt?: boolean; usedFence?: bigint } = {},
  ): ReplicaMeta | string {
    const { durability = 'copies', isCorrupt = false, usedFence } = more;
    const found = recoveredMeta(self, durability, { ...base, ...record }, { meta, isCorrupt, usedFence: usedFence });
    return isRemusterError(found) ? found.code : found;
  }

  test('starts with the stored state, under the new fence', () => {
    assert.deepEqual(recover({}), { ...stored, maxFence: f2 });
    assert.deepEqual(recover({ opening: 'init', phase: 'serving' }), { ...stored, maxFence: f2 }, 'it was open before');
  });

  test('starts empty only if the container is new', () => {
    const empty = { slot: { fence: f2, snapshot: 0 }, position: { fence: f2, seq: 0 }, maxFence: f2 };
    assert.deepEqual(recover({ opening: 'init' }), empty);
    assert.deepEqual(recover({ opening: 'init' }, emptyMeta, { isCorrupt: true }), empty);
    assert.equal(recover({}, emptyMeta), 'STORE_CORRUPT');
    assert.equal(recover({}, stored, { isCorrupt: true }), 'STORE_CORRUPT');
    assert.equal(recover({ inSync: [other] }), 'STORE_CORRUPT');
    const started = { ...stored, position: { fence: f2, seq: 4 }, maxFence: f2 };
    assert.deepEqual(recover({ opening: 'init' }, started), started, 'it has started under this very fence');
  });

  test('does not start if the record names another owner, or if a later owner was here', () => {
    assert.equal(recover({ owner: other }), 'FENCED');
    assert.equal(recover({ owner: { ...self, generation: 1 } }), 'FENCED');
    assert.equal(recover({}, { ...stored, maxFence: fenceOf(2, 0) }), 'FENCED');
    assert.equal(recover({}, stored, { usedFence: f2 }), 'FENCED');
  });

  test('needs the same generation in a pool in memory', () => {
    assert.equal(recover({ inSync: [{ ...self, generation: 1 }] }, stored, { durability: 'memory' }), 'STORE_CORRUPT');
    assert.notEqual(recover({ inSync: [{ ...self, generation: 1 }] }), 'STORE_CORRUPT');
  });
});
