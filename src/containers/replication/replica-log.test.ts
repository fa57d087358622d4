/** What a replica accepts and what it refuses. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Fence, fenceOf } from '../../base/fence.ts';
import type { ReplicateCommits, ReplicateSnapshot } from '../../messages/replication.ts';
import type { ReplicaMeta } from './replica-layout.ts';
import { acceptCommits, acceptSnapshotStep } from './replica-log.ts';

const [f1, f2, f3] = [fenceOf(1, 1), fenceOf(1, 2), fenceOf(1, 3)];
const meta: ReplicaMeta = { slot: { fence: f1, snapshot: 0 }, position: { fence: f1, seq: 5 }, maxFence: f1 };
const owned = { pool: 1, container: 2, inMemory: false, revision: 1 };

function commits(fence: Fence, after: ReplicaMeta['position'], count: number): ReplicateCommits {
  const list = Array.from({ length: count }, () => new Uint8Array(0));
  return { kind: 'replicateCommits', ...owned, fence, after, commits: list };
}

function step(fence: Fence, snapshot: number, at: number, install?: ReplicaMeta['position']): ReplicateSnapshot {
  return { kind: 'replicateSnapshot', ...owned, fence, snapshot, step: at, entries: [], commits: [], install };
}

describe('commits', () => {
  test('are accepted where the log of the replica ends', () => {
    const taken = acceptCommits(meta, undefined, commits(f2, meta.position, 3));
    assert.deepEqual([taken.slot, taken.skip, taken.refusal], [meta.slot, 0, undefined]);
    assert.deepEqual(taken.meta, { slot: meta.slot, position: { fence: f2, seq: 8 }, maxFence: f2 });
  });

  test('of a lower fence than the highest seen are refused', () => {
    const refused = acceptCommits({ ...meta, maxFence: f3 }, undefined, commits(f2, meta.position, 1));
    assert.deepEqual([refused.slot, refused.refusal, refused.meta.maxFence], [undefined, 'fenced', f3]);
  });

  test('that are sent again are acknowledged again', () => {
    const again = acceptCommits(meta, undefined, commits(f1, { fence: f1, seq: 3 }, 2));
    assert.deepEqual([again.slot, again.refusal, again.meta.position.seq], [undefined, undefined, 5]);
    const more = acceptCommits(meta, undefined, commits(f1, { fence: f1, seq: 3 }, 4));
    assert.deepEqual([more.slot, more.skip, more.meta.position.seq], [meta.slot, 2, 7]);
  });

  test('after a gap, or of another history, are refused, and the fence is remembered', () => {
    const cases = [
      commits(f2, { fence: f1, seq: 7 }, 1),
      commits(f2, { fence: fenceOf(0, 9), seq: 5 }, 1),
      commits(f2, { fence: f1, seq: 4 }, 1),
      commits(f2, { fence: f1, seq: 4 }, 3),
    ];
    for (const request of cases) {
      const refused = acceptCommits(meta, undefined, request);
      assert.deepEqual([refused.slot, refused.refusal], [undefined, 'mismatch']);
      assert.deepEqual(refused.meta, { ...meta, maxFence: f2 });
    }
  });

  test('are refused by a replica without state', () => {
    const none = { ...meta, slot: undefined };
    assert.equal(acceptCommits(none, undefined, commits(f2, meta.position, 1)).refusal, 'mismatch');
  });
});

describe('a snapshot', () => {
  test('is written to its own slot step by step, and then replaces the state', () => {
    const first = acceptSnapshotStep(meta, undefined, step(f2, 1, 0));
    assert.deepEqual([first.meta.slot, first.install], [meta.slot, { slot: { fence: f2, snapshot: 1 }, step: 0 }]);
    const second = acceptSnapshotStep(first.meta, first.install, step(f2, 1, 1));
    assert.equal(second.install?.step, 1);
    const last = acceptSnapshotStep(second.meta, second.install, step(f2, 1, 2, { fence: f1, seq: 4 }));
    assert.deepEqual(last.meta, { slot: { fence: f2, snapshot: 1 }, position: { fence: f1, seq: 4 }, maxFence: f2 });
    assert.equal(last.install, undefined);
  });

  test('does each step once and in order', () => {
    const install = { slot: { fence: f2, snapshot: 1 }, step: 3 };
    const known = { ...meta, maxFence: f2 };
    for (const at of [0, 3]) {
      const again = acceptSnapshotStep(known, install, step(f2, 1, at));
      assert.deepEqual([again.slot, again.refusal, again.install], [undefined, undefined, install]);
    }
    assert.equal(acceptSnapshotStep(known, install, step(f2, 1, 5)).refusal, 'mismatch');
    assert.equal(
      acceptSnapshotStep(known, undefined, step(f2, 1, 4)).refusal,
      'mismatch',
      'a crash has lost the earlier steps',
    );
  });

  test('of a lower fence is refused', () => {
    assert.equal(acceptSnapshotStep({ ...meta, maxFence: f3 }, undefined, step(f2, 9, 0)).refusal, 'fenced');
  });

  test('is replaced by a later one, and its delayed steps are refused', () => {
    const install = { slot: { fence: f2, snapshot: 4 }, step: 2 };
    const later = acceptSnapshotStep(meta, install, step(f2, 5, 0));
    assert.deepEqual(later.install, { slot: { fence: f2, snapshot: 5 }, step: 0 });
    assert.equal(acceptSnapshotStep(meta, later.install, step(f2, 4, 0)).refusal, 'mismatch');
    const installed = { ...meta, slot: { fence: f2, snapshot: 5 }, maxFence: f2 };
    assert.equal(acceptSnapshotStep(installed, undefined, step(f2, 5, 0)).refusal, 'mismatch');
  });

  test('never removes a commit of the same owner', () => {
    const known = { ...meta, position: { fence: f2, seq: 9 }, maxFence: f2 };
    assert.equal(acceptSnapshotStep(known, undefined, step(f2, 3, 0, { fence: f2, seq: 8 })).refusal, 'mismatch');
    assert.equal(acceptSnapshotStep(known, undefined, step(f3, 3, 0, { fence: f1, seq: 4 })).refusal, undefined);
  });
});
