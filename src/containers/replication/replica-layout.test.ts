/** Keys and meta rows on disk. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fenceOf } from '../../base/fence.ts';
import {
  type ReplicaMeta,
  allReplicaMetas,
  replicaMetaKey,
  replicaMetaWrite,
  emptyMeta,
  parseReplicaMetaKey,
  prefixOfRow,
  readReplicaMeta,
  slotPrefix,
  slotRows,
} from './replica-layout.ts';

const [f1, f2] = [fenceOf(1, 1), fenceOf(1, 2)];

test('keys and meta rows are read as they were written', () => {
  const meta: ReplicaMeta = {
    slot: { fence: f1, snapshot: 3 },
    position: { fence: f2, seq: 2 ** 40 },
    maxFence: fenceOf(9, 9),
  };
  for (const written of [meta, emptyMeta]) {
    const { key, value } = replicaMetaWrite(7, 99, written);
    assert.deepEqual([key, value && readReplicaMeta(value)], [replicaMetaKey(7, 99), written]);
  }
  assert.deepEqual(parseReplicaMetaKey(replicaMetaKey(36, 2 ** 31)), { pool: 36, container: 2 ** 31 });
  assert.equal(parseReplicaMetaKey('copies/s/1/2'), undefined);
  assert.ok(replicaMetaKey(1, 1) >= allReplicaMetas.from && replicaMetaKey(2 ** 50, 1) < allReplicaMetas.to);
  const prefix = slotPrefix(7, 99, { fence: f1, snapshot: 3 });
  assert.equal(prefixOfRow(`${prefix}a/b/c`), prefix);
  const { from, to } = slotRows(prefix);
  assert.ok(`${prefix}\u{10ffff}` < to && from <= prefix);
  assert.equal(readReplicaMeta(new Uint8Array(3)), undefined);
});
