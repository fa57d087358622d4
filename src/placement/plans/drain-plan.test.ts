import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { nodeIdFrom } from '../../base/ids.ts';
import { fenceOf } from '../../base/fence.ts';
import type { RegistryEntry } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import { type NodeStateRecord, encodeRegistrationRecord } from '../../registration/registration-records.ts';
import { ClusterView } from '../state/cluster-view.ts';
import { encodeContainer } from '../state/container-records.ts';
import { nextDrainDueMs, drainTasks } from './drain-plan.ts';

const node = nodeIdFrom(new Uint8Array(16).fill(1));
const options = {
  strategy: 'fair',
  wallOffsetMs: 0,
  runningUnitsAt: () => 0,
} as const;
const state: NodeStateRecord = {
  ...{ mode: 'active', reason: 'boot', generation: 1, epoch: 1, lost: false, sinceWallMs: 0, note: '' },
};

function entry(key: string, value: Uint8Array): RegistryEntry {
  return { key, value, createRevision: 1, modRevision: 1, version: 1, lease: undefined };
}

function stateEntry(record: NodeStateRecord): RegistryEntry {
  return entry(clusterKey({ kind: 'state', node }), encodeRegistrationRecord(record));
}

const held = entry(
  clusterKey({ kind: 'container', pool: 'p', container: '1' }),
  encodeContainer({
    ...{ owner: { node, generation: 1 }, fence: fenceOf(1, 1), opening: 'init', phase: 'serving', move: undefined },
    ...{ copies: [node], inSync: [{ node, generation: 1 }], moduleVersion: 0, failures: 0, note: '' },
  }),
);
const registered = entry(clusterKey({ kind: 'registration', node }), new Uint8Array());

/** The kinds of the tasks at a time, for a view that was loaded at 0. */
function kinds(entries: readonly RegistryEntry[], nowMs = 0): readonly string[] {
  const view = ClusterView.from(entries, 1, 0);
  return [...drainTasks(view, nowMs, options, () => new Map())].map(({ kind }) => kind);
}

describe('tasks of a drain', () => {
  test('do not exist for active and lost nodes: the placer recovers containers of lost nodes', () => {
    assert.deepEqual(kinds([held, registered, stateEntry(state)]), []);
    assert.deepEqual(kinds([held, stateEntry({ ...state, lost: true })], 1e9), []);
  });

  test('leave containers on a draining node while no other node is active', () => {
    assert.deepEqual(kinds([held, registered, stateEntry({ ...state, mode: 'draining' })]), []);
    assert.deepEqual(kinds([registered, stateEntry({ ...state, mode: 'draining' })]), ['drained']);
  });

  test('do not end the drain while units of jobs run on the node; the drain is checked again later', () => {
    const view = ClusterView.from([registered, stateEntry({ ...state, mode: 'draining' })], 1, 0);
    const busy = { ...options, runningUnitsAt: () => 1 };
    assert.deepEqual([...drainTasks(view, 0, busy, () => new Map())], []);
    assert.equal(nextDrainDueMs(view, 0), 200);
    const gone = ClusterView.from([stateEntry({ ...state, mode: 'draining' })], 1, 0);
    const kindsOfGone = [...drainTasks(gone, 0, busy, () => new Map())].map(({ kind }) => kind);
    assert.deepEqual(kindsOfGone, ['drained'], 'units of a node that is gone do not run any more');
  });
});
