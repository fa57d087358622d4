/** The revision that a node has to see before it serves again, also after lost replies of the registry. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { failure, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import { PendingTakeovers } from './pending-takeovers.ts';
import type { RunningTask } from './task-tracker.ts';
import { ServingLeases } from '../state/serving-leases.ts';

const node = nodeIdFrom(new Uint8Array(16).fill(1));

function takeover(id: number, modRevision: number): RunningTask {
  const update = { previousOwner: { node, generation: 1 }, container: { modRevision } };
  return { id, name: 'p/0', task: { kind: 'update', update, call: undefined } } as unknown as RunningTask;
}

/** The result of a refused takeover: the present record. */
function refused(modRevision: number): ReturnType<typeof success<never>> {
  const entries = [{ modRevision }];
  return success({ succeeded: false, revision: 90, results: [{ kind: 'read', entries, more: false }] } as never);
}

test('a takeover with a lost reply counts when the next attempt finds that it has succeeded', () => {
  const leases = new ServingLeases(1_000);
  const takeovers = new PendingTakeovers(leases);
  leases.renew(0, node, 1);
  takeovers.onTaskStarted(2_000, takeover(1, 5));
  takeovers.onTaskEnded(takeover(1, 5), failure('DEADLINE'));
  assert.equal(leases.renew(2_010, node, 1), 'blocked');
  // The view does not show it yet, so the placer retries and is refused: the record has changed.
  takeovers.onTaskStarted(2_020, takeover(2, 5));
  takeovers.onTaskEnded(takeover(2, 5), refused(7));
  assert.equal(leases.renew(2_030, node, 1), 'granted');
  assert.equal(leases.requiredRevision(node), 7);
  assert.equal(leases.renew(2_040, node, 1, 6), 'behind');
});

test('a refused takeover of an unchanged record requires no revision', () => {
  const leases = new ServingLeases(1_000);
  const takeovers = new PendingTakeovers(leases);
  leases.renew(0, node, 1);
  takeovers.onTaskStarted(2_000, takeover(1, 5));
  takeovers.onTaskEnded(takeover(1, 5), refused(5));
  assert.equal(leases.renew(2_010, node, 1), 'granted');
  assert.equal(leases.requiredRevision(node), 0);
});
