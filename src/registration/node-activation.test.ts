/** The activation of a drained node by an operator, and its refusals. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Outcome } from '../base/errors.ts';
import { type NodeId, parseNodeId } from '../base/ids.ts';
import { activateNodeState } from './node-activation.ts';
import {
  type RegistrationTestCluster,
  startedCluster,
  setMode,
  ttlMs,
} from '../../test/support/registration/registration-cluster.ts';
import type { NodeStateRecord } from './registration-records.ts';

function activate(cluster: RegistrationTestCluster, node: NodeId, note = ''): Outcome<NodeStateRecord> {
  const clock = { nowMs: () => 0, wallMs: () => 5, schedule: () => () => {} };
  const ends: Outcome<NodeStateRecord>[] = [];
  activateNodeState({ registry: cluster.registry, clock }, { node, note }, (outcome) => ends.push(outcome));
  cluster.run(100);
  assert.equal(ends.length, 1);
  return ends[0] as Outcome<NodeStateRecord>;
}

function refusal(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'no refusal' : `${outcome.error.code} ${outcome.error.message}`;
}

describe('activateNodeState', () => {
  test('activates a late return', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.crash('b');
    cluster.run(3 * ttlMs);
    const id = cluster.node('b').id;
    assert.match(refusal(activate(cluster, id)), /^PRECONDITION .*not registered/);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.statusOf('b'), 'drained stale_restart');
    assert.ok(activate(cluster, id, 'disk replaced').ok);
    cluster.run(1_000);
    assert.equal(cluster.statusOf('b'), 'active admin_activate');
    assert.equal(cluster.entry('b')?.state?.record?.note, 'disk replaced');
    assert.ok(activate(cluster, id).ok, 'twice is no error');
  });

  test('refuses a node that is not drained', () => {
    const cluster = startedCluster(['a', 'b']);
    setMode(cluster, 'b', 'draining');
    assert.match(refusal(activate(cluster, cluster.node('b').id)), /^PRECONDITION node b is draining, not drained/);
    assert.match(refusal(activate(cluster, parseNodeId('f'.repeat(32)))), /^BAD_ARGUMENT there is no node f+/);
  });

  test('reads the state again after a conflict', () => {
    const cluster = startedCluster(['a', 'b']);
    setMode(cluster, 'b', 'drained');
    const registry = cluster.registry.connect();
    const transact = registry.transact.bind(registry);
    let conflicts = 0;
    registry.transact = (transaction, options, done) => {
      if (transaction.then.some((op) => op.kind === 'put') && conflicts++ < 2) setMode(cluster, 'b', 'drained');
      transact(transaction, options, done);
    };
    const clock = { nowMs: () => 0, wallMs: () => 5, schedule: () => () => {} };
    let ok = false;
    activateNodeState({ registry, clock }, { node: cluster.node('b').id }, (outcome) => (ok = outcome.ok));
    cluster.run(100);
    assert.equal(ok, true);
    assert.equal(conflicts, 3);
  });
});
