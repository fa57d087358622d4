/** What a node has to have seen before it serves again, also when answers of the registry were lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { failure, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import { PendingTakeovers } from './pending-takeovers.ts';
import type { RunningTask } from './task-tracker.ts';
import { ServingLeases } from '../state/serving-leases.ts';

const node = nodeIdFrom(new Uint8Array(16).fill(1));

function taking(id: number, modRevision: number): RunningTask {
  const change = { previousOwner: { node, generation: 1 }, placed: { modRevision } };
  return { id, name: 'p/0', task: { kind: 'change', change, call: undefined } } as unknown as RunningTask;
}

/** The answer to a taking that came too late: the record as it is by now. */
function refused(modRevision: number): ReturnType<typeof success<never>> {
  const entries = [{ modRevision }];
  return success({ succeeded: false, revision: 90, results: [{ kind: 'read', entries, more: false }] } as never);
}

test('a taking whose answer was lost counts when the next one finds that it has happened', () => {
  const leases = new ServingLeases(1_000);
  const disputes = new PendingTakeovers(leases);
  leases.renew(0, node, 1);
  disputes.takeoverStarted(2_000, taking(1, 5));
  disputes.takeoverEnded(taking(1, 5), failure('DEADLINE'));
  assert.equal(leases.renew(2_010, node, 1), 'disputed');
  // The view has not shown it yet, so it is tried again, and refused: the record is not what it was.
  disputes.takeoverStarted(2_020, taking(2, 5));
  disputes.takeoverEnded(taking(2, 5), refused(7));
  assert.equal(leases.renew(2_030, node, 1), 'granted');
  assert.equal(leases.requiredRevision(node), 7);
  assert.equal(leases.renew(2_040, node, 1, 6), 'behind');
});

test('a taking that was refused for another reason has taken nothing', () => {
  const leases = new ServingLeases(1_000);
  const disputes = new PendingTakeovers(leases);
  leases.renew(0, node, 1);
  disputes.takeoverStarted(2_000, taking(1, 5));
  disputes.takeoverEnded(taking(1, 5), refused(5));
  assert.equal(leases.renew(2_010, node, 1), 'granted');
  assert.equal(leases.requiredRevision(node), 0);
});
