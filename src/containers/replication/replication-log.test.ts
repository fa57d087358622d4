/** When a commit counts as everywhere, who is waited for, and whom the record should name. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fenceOf } from '../../base/fence.ts';
import { type NodeId, parseNodeId } from '../../base/ids.ts';
import type { ReplicaStatus } from '../../messages/replication.ts';
import type { ContainerRecord, PoolDurability, NodeInstance } from '../../placement/state/container-records.ts';
import type { ReplicaProgress } from './replica-progress.ts';
import { ReplicationLog, type ReplicaReplyEffect } from './replication-log.ts';

const [a, b, c] = ['a', 'b', 'c'].map((letter) => parseNodeId(letter.repeat(32))) as [NodeId, NodeId, NodeId];
const fence = fenceOf(2, 5);
const older = fenceOf(2, 4);
const self = { node: a, generation: 1 };

function record(inSync: readonly (NodeId | NodeInstance)[], copies: readonly NodeId[] = [a, b, c]): ContainerRecord {
  const holders = inSync.map((one) => (typeof one === 'string' ? { node: one, generation: 1 } : one));
  const rest = { move: undefined, moduleVersion: 0, failures: 0, note: '' };
  return { owner: self, fence, opening: 'recover', phase: 'serving', copies, inSync: holders, ...rest };
}

/** An owner that found commit 10 of an older fence on its disk. */
function opened(inSync: readonly NodeId[], durability: PoolDurability = 'copies'): ReplicationLog {
  const log = new ReplicationLog({ self, fence, base: { fence: older, seq: 10 }, durability, quietTicksMax: 3 });
  log.onRecord(record(inSync));
  return log;
}

function link(log: ReplicationLog, node: NodeId): ReplicaProgress {
  const found = log.replicas.get(node);
  assert.ok(found);
  return found;
}

function says(
  log: ReplicationLog,
  node: NodeId,
  at: number | undefined,
  more: Partial<ReplicaStatus> = {},
): ReplicaReplyEffect {
  const position = at === undefined ? undefined : { fence: at > 10 ? fence : older, seq: at };
  const nothing = { snapshot: undefined, step: undefined, refusal: undefined };
  const standing = {
    kind: 'replicaStatus',
    generation: 1,
    highestFence: fence,
    position,
    ...nothing,
    ...more,
  } as const;
  return log.onReply(link(log, node), standing, 0);
}

function append(log: ReplicationLog, count = 1): void {
  for (let i = 0; i < count; i++) log.append({ writes: [], bytes: 10, packed: undefined });
}

function target(log: ReplicationLog): string | undefined {
  return log
    .wantedIsr()
    ?.map(({ node }) => node[0])
    .join('');
}

describe('a commit', () => {
  test('counts when our disk and every copy in sync have it', () => {
    const log = opened([a, b, c]);
    says(log, b, 10);
    says(log, c, 10);
    append(log, 2);
    log.onStored(12);
    says(log, b, 12);
    assert.equal(log.committed, 10);
    says(log, c, 11);
    assert.equal(log.committed, 11);
    says(log, c, 12);
    assert.equal(log.committed, 12);
  });

  test('waits for our own disk too', () => {
    const log = opened([a, b]);
    says(log, b, 10);
    append(log);
    says(log, b, 11);
    assert.equal(log.committed, 10);
    log.onStored(11);
    assert.equal(log.committed, 11);
  });

  test('does not wait for a copy that is not in sync', () => {
    const log = opened([a]);
    append(log);
    log.onStored(11);
    assert.equal(log.committed, 11);
  });

  test('waits until we ourselves are named', () => {
    const log = opened([]);
    assert.equal(log.committed, -1);
    assert.equal(target(log), 'a');
    log.onRecord(record([a]));
    assert.equal(log.committed, 10);
  });
});

describe('the state of the opening', () => {
  test('counts when every copy in sync is exactly there', () => {
    const log = opened([a, b]);
    assert.equal(log.committed, -1);
    says(log, b, 9);
    assert.equal(log.committed, -1, 'behind');
    says(log, b, 11);
    assert.equal(log.committed, -1, 'ahead, with a commit that is not ours');
    assert.equal(link(log, b).mode, 'copying');
    says(log, b, 10);
    assert.equal(log.committed, 10);
  });

  test('is that of one fence and no other', () => {
    const log = opened([a, b]);
    says(log, b, undefined, { position: { fence: fenceOf(2, 3), seq: 10 } });
    assert.equal(link(log, b).mode, 'copying');
    assert.equal(log.committed, -1);
  });
});

describe('a silent copy', () => {
  test('is required until the record no longer names it', () => {
    const log = opened([a, b]);
    says(log, b, 10);
    append(log);
    log.onStored(11);
    log.tick();
    log.tick();
    assert.equal(target(log), undefined);
    log.tick();
    assert.equal(target(log), 'a');
    assert.equal(log.committed, 10);
    log.isrUpdateStarted([self]);
    assert.equal(log.committed, 10);
    log.isrUpdateEnded(undefined);
    assert.equal(log.committed, 10, 'nobody knows whether it has happened');
    assert.equal(target(log), 'a', 'so it is done again');
    log.isrUpdateStarted([self]);
    log.isrUpdateEnded(record([a]));
    assert.equal(log.committed, 11);
    assert.equal(target(log), undefined, 'and it does not come back by itself');
  });

  test('is not blamed while nobody waits for it, or while it comes nearer', () => {
    const log = opened([a, b]);
    says(log, b, 10);
    for (let i = 0; i < 10; i++) log.tick();
    assert.equal(target(log), undefined);
    append(log, 20);
    log.onStored(30);
    for (let seq = 11; seq < 30; seq++) {
      log.tick();
      log.tick();
      says(log, b, seq);
    }
    assert.equal(target(log), undefined);
  });

  test('does not cost another its place', () => {
    const log = opened([a, b, c]);
    says(log, b, 10);
    for (let i = 0; i < 5; i++) log.tick();
    assert.equal(target(log), 'ab');
  });

  test('is given up at once when it is surely gone, or its disk says so', () => {
    for (const how of ['gone', 'full', 'failed', 'corrupt'] as const) {
      const log = opened([a, b]);
      says(log, b, 10);
      append(log);
      if (how === 'gone') log.onFailure(link(log, b), true);
      else assert.equal(says(log, b, 10, { refusal: how }), 'refused');
      assert.equal(target(log), 'a', how);
    }
  });

  test('may stay when it speaks in time', () => {
    const log = opened([a, b]);
    says(log, b, 10);
    append(log);
    for (let i = 0; i < 3; i++) log.tick();
    assert.equal(target(log), 'a');
    says(log, b, 11);
    assert.equal(target(log), undefined);
  });
});

describe('a copy that joins', () => {
  test('is waited for before the record names it', () => {
    const log = opened([a]);
    append(log);
    log.onStored(11);
    says(log, b, 10);
    assert.equal(target(log), undefined, 'it lacks what was acknowledged');
    says(log, b, 11);
    assert.equal(target(log), 'ab');
    append(log);
    log.onStored(12);
    assert.equal(log.committed, 11);
    log.isrUpdateStarted([self, { node: b, generation: 1 }]);
    log.onFailure(link(log, b), true);
    assert.equal(log.committed, 11, 'it may be in the record by now');
    log.isrUpdateEnded(undefined);
    log.onStored(12);
    assert.equal(log.committed, 11);
    assert.equal(target(log), 'a');
    log.isrUpdateStarted([self]);
    log.isrUpdateEnded(record([a]));
    assert.equal(log.committed, 12);
  });

  test('is waited for when it takes commits and is always a step behind', () => {
    const log = opened([a]);
    append(log, 2);
    log.onStored(12);
    says(log, b, 10);
    assert.equal(log.isRequired(link(log, b)), false, 'it has not shown yet that it can write');
    append(log, 2);
    log.onStored(14);
    says(log, b, 12);
    append(log, 2);
    log.onStored(16);
    assert.deepEqual([log.committed, target(log)], [14, undefined], 'what is acknowledged stands still');
    says(log, b, 14);
    assert.deepEqual([log.committed, target(log)], [14, 'ab']);
  });

  test('is not waited for again soon when that was in vain', () => {
    const log = opened([a]);
    append(log, 2);
    log.onStored(12);
    says(log, b, 10);
    says(log, b, 11);
    append(log);
    log.onStored(13);
    assert.equal(log.committed, 12);
    for (let tick = 0; tick < 3; tick++) log.tick();
    assert.equal(log.committed, 13, 'it was silent for too long');
    append(log, 2);
    log.onStored(15);
    says(log, b, 12);
    says(log, b, 13);
    assert.deepEqual([log.committed, log.isRequired(link(log, b))], [15, false]);
    for (let tick = 0; tick < 20; tick++) log.tick();
    says(log, b, 14);
    assert.equal(log.isRequired(link(log, b)), true);
  });

  test('is only whoever should have a copy', () => {
    const log = new ReplicationLog({
      self,
      fence,
      base: { fence: older, seq: 10 },
      durability: 'copies',
      quietTicksMax: 3,
    });
    log.onRecord(record([a, b], [a, c]));
    says(log, b, 10);
    says(log, c, 10);
    assert.equal(target(log), 'ac');
    log.isrUpdateStarted([self, { node: c, generation: 1 }]);
    log.isrUpdateEnded(record([a, c], [a, c]));
    assert.deepEqual([...log.replicas.keys()], [c]);
  });

  test('is named with the life that has the state, in a pool without disks', () => {
    const log = opened([a, b], 'memory');
    says(log, b, undefined, { generation: 2 });
    assert.equal(log.committed, -1);
    says(log, b, 10, { generation: 2 });
    assert.deepEqual(log.wantedIsr(), [self, { node: b, generation: 2 }]);
    const onDisk = opened([a, b]);
    says(onDisk, b, 10, { generation: 2 });
    assert.equal(onDisk.wantedIsr(), undefined);
  });
});

describe('the tail', () => {
  test('is forgotten only up to what is everywhere', () => {
    const log = opened([a, b]);
    says(log, b, 10);
    append(log, 5);
    log.onStored(15);
    says(log, b, 13);
    log.trim(0);
    assert.deepEqual(log.tail.start, { fence, seq: 13 });
    log.trim(0);
    says(log, b, 15);
    log.trim(0);
    assert.deepEqual([log.tail.start.seq, log.tail.bytes], [15, 0]);
  });

  test('that is gone sends who needed it to a snapshot', () => {
    const log = opened([a]);
    says(log, b, 10);
    log.isrUpdateStarted([self]);
    log.isrUpdateEnded(record([a]));
    append(log, 2);
    log.onStored(12);
    log.onFailure(link(log, b), true);
    log.trim(0);
    says(log, b, 10);
    assert.equal(link(log, b).mode, 'copying');
  });

  test('is taken back only while nobody has seen it', () => {
    const log = opened([a]);
    append(log, 2);
    assert.equal(log.hasUnstoredSent, false);
    log.rollBack();
    assert.equal(log.tail.last, 10);
    append(log);
    log.markSent(11);
    assert.equal(log.hasUnstoredSent, true);
  });
});

test('a copy that has seen a later owner ends the log', () => {
  const log = opened([a, b]);
  assert.equal(says(log, b, 10, { refusal: 'fenced', highestFence: fenceOf(3, 1) }), 'fenced');
  assert.equal(says(log, b, 10, { highestFence: fence + 1n }), 'fenced');
});
