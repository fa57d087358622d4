/** When a commit counts, which replicas are required, and which ISR the record should have. */
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
  const replicas = inSync.map((item) => (typeof item === 'string' ? { node: item, generation: 1 } : item));
  const rest = { move: undefined, moduleVersion: 0, failures: 0, note: '' };
  return { owner: self, fence, opening: 'recover', phase: 'serving', copies, inSync: replicas, ...rest };
}

/** An owner that found commit 10 of an older fence on its disk. */
function openLog(inSync: readonly NodeId[], durability: PoolDurability = 'copies'): ReplicationLog {
  const log = new ReplicationLog({ self, fence, base: { fence: older, seq: 10 }, durability, silentTicksMax: 3 });
  log.onRecord(record(inSync));
  return log;
}

function progressOf(log: ReplicationLog, node: NodeId): ReplicaProgress {
  const found = log.replicas.get(node);
  assert.ok(found);
  return found;
}

function reply(
  log: ReplicationLog,
  node: NodeId,
  at: number | undefined,
  more: Partial<ReplicaStatus> = {},
): ReplicaReplyEffect {
  const position = at === undefined ? undefined : { fence: at > 10 ? fence : older, seq: at };
  const nothing = { snapshot: undefined, step: undefined, refusal: undefined };
  const status = {
    kind: 'replicaStatus',
    generation: 1,
    highestFence: fence,
    position,
    ...nothing,
    ...more,
  } as const;
  return log.onReply(progressOf(log, node), status, 0);
}

function append(log: ReplicationLog, count = 1): void {
  for (let i = 0; i < count; i++) log.append({ writes: [], bytes: 10, packed: undefined });
}

function isrWanted(log: ReplicationLog): string | undefined {
  return log
    .wantedIsr()
    ?.map(({ node }) => node[0])
    .join('');
}

describe('a commit', () => {
  test('counts when the disk of the owner and every replica in the ISR have it', () => {
    const log = openLog([a, b, c]);
    reply(log, b, 10);
    reply(log, c, 10);
    append(log, 2);
    log.onStored(12);
    reply(log, b, 12);
    assert.equal(log.committed, 10);
    reply(log, c, 11);
    assert.equal(log.committed, 11);
    reply(log, c, 12);
    assert.equal(log.committed, 12);
  });

  test('waits for the disk of the owner too', () => {
    const log = openLog([a, b]);
    reply(log, b, 10);
    append(log);
    reply(log, b, 11);
    assert.equal(log.committed, 10);
    log.onStored(11);
    assert.equal(log.committed, 11);
  });

  test('does not wait for a replica outside the ISR', () => {
    const log = openLog([a]);
    append(log);
    log.onStored(11);
    assert.equal(log.committed, 11);
  });

  test('waits until the ISR names the owner', () => {
    const log = openLog([]);
    assert.equal(log.committed, -1);
    assert.equal(isrWanted(log), 'a');
    log.onRecord(record([a]));
    assert.equal(log.committed, 10);
  });
});

describe('the state that an owner finds', () => {
  test('counts when every replica in the ISR has exactly that position', () => {
    const log = openLog([a, b]);
    assert.equal(log.committed, -1);
    reply(log, b, 9);
    assert.equal(log.committed, -1, 'behind');
    reply(log, b, 11);
    assert.equal(log.committed, -1, 'ahead, with a commit of another history');
    assert.equal(progressOf(log, b).mode, 'snapshotting');
    reply(log, b, 10);
    assert.equal(log.committed, 10);
  });

  test('has one fence: the same number under another fence differs', () => {
    const log = openLog([a, b]);
    reply(log, b, undefined, { position: { fence: fenceOf(2, 3), seq: 10 } });
    assert.equal(progressOf(log, b).mode, 'snapshotting');
    assert.equal(log.committed, -1);
  });
});

describe('a silent replica', () => {
  test('is required until the record no longer names it', () => {
    const log = openLog([a, b]);
    reply(log, b, 10);
    append(log);
    log.onStored(11);
    log.tick();
    log.tick();
    assert.equal(isrWanted(log), undefined);
    log.tick();
    assert.equal(isrWanted(log), 'a');
    assert.equal(log.committed, 10);
    log.isrUpdateStarted([self]);
    assert.equal(log.committed, 10);
    log.isrUpdateEnded(undefined);
    assert.equal(log.committed, 10, 'the outcome of the update is unknown');
    assert.equal(isrWanted(log), 'a', 'so the update is repeated');
    log.isrUpdateStarted([self]);
    log.isrUpdateEnded(record([a]));
    assert.equal(log.committed, 11);
    assert.equal(isrWanted(log), undefined, 'and the replica does not join by itself');
  });

  test('stays in the ISR while no commit waits for it, or while it makes progress', () => {
    const log = openLog([a, b]);
    reply(log, b, 10);
    for (let i = 0; i < 10; i++) log.tick();
    assert.equal(isrWanted(log), undefined);
    append(log, 20);
    log.onStored(30);
    for (let seq = 11; seq < 30; seq++) {
      log.tick();
      log.tick();
      reply(log, b, seq);
    }
    assert.equal(isrWanted(log), undefined);
  });

  test('does not remove another replica from the ISR', () => {
    const log = openLog([a, b, c]);
    reply(log, b, 10);
    for (let i = 0; i < 5; i++) log.tick();
    assert.equal(isrWanted(log), 'ab');
  });

  test('leaves the ISR at once when it is gone, or when its disk fails', () => {
    for (const how of ['gone', 'full', 'failed', 'corrupt'] as const) {
      const log = openLog([a, b]);
      reply(log, b, 10);
      append(log);
      if (how === 'gone') log.onFailure(progressOf(log, b), true);
      else assert.equal(reply(log, b, 10, { refusal: how }), 'refused');
      assert.equal(isrWanted(log), 'a', how);
    }
  });

  test('may stay when it replies before the update starts', () => {
    const log = openLog([a, b]);
    reply(log, b, 10);
    append(log);
    for (let i = 0; i < 3; i++) log.tick();
    assert.equal(isrWanted(log), 'a');
    reply(log, b, 11);
    assert.equal(isrWanted(log), undefined);
  });
});

describe('a replica that joins', () => {
  test('is required before the record names it', () => {
    const log = openLog([a]);
    append(log);
    log.onStored(11);
    reply(log, b, 10);
    assert.equal(isrWanted(log), undefined, 'it lacks a committed entry');
    reply(log, b, 11);
    assert.equal(isrWanted(log), 'ab');
    append(log);
    log.onStored(12);
    assert.equal(log.committed, 11);
    log.isrUpdateStarted([self, { node: b, generation: 1 }]);
    log.onFailure(progressOf(log, b), true);
    assert.equal(log.committed, 11, 'it may be in the record by now');
    log.isrUpdateEnded(undefined);
    log.onStored(12);
    assert.equal(log.committed, 11);
    assert.equal(isrWanted(log), 'a');
    log.isrUpdateStarted([self]);
    log.isrUpdateEnded(record([a]));
    assert.equal(log.committed, 12);
  });

  test('becomes required when it takes commits and stays one step behind', () => {
    const log = openLog([a]);
    append(log, 2);
    log.onStored(12);
    reply(log, b, 10);
    assert.equal(log.isRequired(progressOf(log, b)), false, 'it has not acknowledged a commit yet');
    append(log, 2);
    log.onStored(14);
    reply(log, b, 12);
    append(log, 2);
    log.onStored(16);
    assert.deepEqual([log.committed, isrWanted(log)], [14, undefined], 'the commit index waits');
    reply(log, b, 14);
    assert.deepEqual([log.committed, isrWanted(log)], [14, 'ab']);
  });

  test('is required again only after a delay if it failed to catch up', () => {
    const log = openLog([a]);
    append(log, 2);
    log.onStored(12);
    reply(log, b, 10);
    reply(log, b, 11);
    append(log);
    log.onStored(13);
    assert.equal(log.committed, 12);
    for (let tick = 0; tick < 3; tick++) log.tick();
    assert.equal(log.committed, 13, 'it was silent for too long');
    append(log, 2);
    log.onStored(15);
    reply(log, b, 12);
    reply(log, b, 13);
    assert.deepEqual([log.committed, log.isRequired(progressOf(log, b))], [15, false]);
    for (let tick = 0; tick < 20; tick++) log.tick();
    reply(log, b, 14);
    assert.equal(log.isRequired(progressOf(log, b)), true);
  });

  test('is only one that the record assigns', () => {
    const log = new ReplicationLog({
      self,
      fence,
      base: { fence: older, seq: 10 },
      durability: 'copies',
      silentTicksMax: 3,
    });
    log.onRecord(record([a, b], [a, c]));
    reply(log, b, 10);
    reply(log, c, 10);
    assert.equal(isrWanted(log), 'ac');
    log.isrUpdateStarted([self, { node: c, generation: 1 }]);
    log.isrUpdateEnded(record([a, c], [a, c]));
    assert.deepEqual([...log.replicas.keys()], [c]);
  });

  test('is named with the generation that has the state, in a pool in memory', () => {
    const log = openLog([a, b], 'memory');
    reply(log, b, undefined, { generation: 2 });
    assert.equal(log.committed, -1);
    reply(log, b, 10, { generation: 2 });
    assert.deepEqual(log.wantedIsr(), [self, { node: b, generation: 2 }]);
    const onDisk = openLog([a, b]);
    reply(onDisk, b, 10, { generation: 2 });
    assert.equal(onDisk.wantedIsr(), undefined);
  });
});

describe('the log tail', () => {
  test('is trimmed only up to the commit index', () => {
    const log = openLog([a, b]);
    reply(log, b, 10);
    append(log, 5);
    log.onStored(15);
    reply(log, b, 13);
    log.trim(0);
    assert.deepEqual(log.tail.start, { fence, seq: 13 });
    log.trim(0);
    reply(log, b, 15);
    log.trim(0);
    assert.deepEqual([log.tail.start.seq, log.tail.bytes], [15, 0]);
  });

  test('that is trimmed leaves a lagging replica with a snapshot', () => {
    const log = openLog([a]);
    reply(log, b, 10);
    log.isrUpdateStarted([self]);
    log.isrUpdateEnded(record([a]));
    append(log, 2);
    log.onStored(12);
    log.onFailure(progressOf(log, b), true);
    log.trim(0);
    reply(log, b, 10);
    assert.equal(progressOf(log, b).mode, 'snapshotting');
  });

  test('is rolled back only while no replica has its commits', () => {
    const log = openLog([a]);
    append(log, 2);
    assert.equal(log.hasUnstoredSent, false);
    log.rollBack();
    assert.equal(log.tail.last, 10);
    append(log);
    log.markSent(11);
    assert.equal(log.hasUnstoredSent, true);
  });
});

test('a replica that has seen a later owner fences this owner', () => {
  const log = openLog([a, b]);
  assert.equal(reply(log, b, 10, { refusal: 'fenced', highestFence: fenceOf(3, 1) }), 'fenced');
  assert.equal(reply(log, b, 10, { highestFence: fence + 1n }), 'fenced');
});
