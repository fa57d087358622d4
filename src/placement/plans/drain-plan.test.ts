import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { nodeIdFrom } from '../../base/ids.ts';
import type { RegistryEntry } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import { type NodeStateRecord, encodeRegistrationRecord } from '../../registration/registration-records.ts';
import { ClusterView } from '../state/cluster-view.ts';
import { encodeAssigned, encodeUnassigned, noHint } from '../../registry/assignment/record.ts';
import { nextDrainDueMs, drainTasks } from './drain-plan.ts';

const node = nodeIdFrom(new Uint8Array(16).fill(1));
const name = { pool: 'p', container: '1' };
const options = {
  strategy: 'fair',
  regrantDelayMs: 1_000,
  wallOffsetMs: 0,
  releaseTimeoutMs: 5_000,
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
  clusterKey({ kind: 'assignment', node, ...name }),
  encodeAssigned({ hint: noHint, releasing: undefined, attempts: 0 }),
);
const registered = entry(clusterKey({ kind: 'registration', node }), new Uint8Array());

/** The kinds of tasks at a time, for a view that began at 0. */
function kinds(entries: readonly RegistryEntry[], nowMs = 0): readonly string[] {
  const view = ClusterView.from(entries, 1, 0);
  return [...drainTasks(view, nowMs, options, () => new Map())].map(({ kind }) => kind);
}

describe('what the leader does next', () => {
  test('takes back only what a node held that is agreed to be lost, or has left', () => {
    assert.deepEqual(kinds([held, registered, stateEntry(state)]), []);
    assert.deepEqual(kinds([held, stateEntry(state)], 1e9), [], 'not registered, and perhaps only slow to return');
    assert.deepEqual(kinds([held, stateEntry({ ...state, lost: true })]), ['reclaim']);
    assert.deepEqual(kinds([held], 999), []);
    assert.deepEqual(kinds([held], 1_000), ['reclaim'], 'without a state it has left');
    assert.equal(nextDrainDueMs(ClusterView.from([held], 1, 0), 0, options), 1_000);
  });

  test('keeps what a draining node has while nobody else is active', () => {
    assert.deepEqual(kinds([held, registered, stateEntry({ ...state, mode: 'draining' })]), []);
    assert.deepEqual(kinds([registered, stateEntry({ ...state, mode: 'draining' })]), ['drained']);
  });

  test('a node is not drained while units of jobs run on it, and is looked at again', () => {
    const view = ClusterView.from([registered, stateEntry({ ...state, mode: 'draining' })], 1, 0);
    const busy = { ...options, runningUnitsAt: () => 1 };
    assert.deepEqual([...drainTasks(view, 0, busy, () => new Map())], []);
    assert.equal(nextDrainDueMs(view, 0, busy), 200);
    const gone = ClusterView.from([stateEntry({ ...state, mode: 'draining' })], 1, 0);
    const kindsThen = [...drainTasks(gone, 0, busy, () => new Map())].map(({ kind }) => kind);
    assert.deepEqual(kindsThen, ['drained'], 'what ran on a node that is gone runs no longer');
  });

  test('gives what waits to workers only', () => {
    const record = { hint: noHint, reason: 'created', from: undefined, to: undefined, attempts: 0 } as const;
    const waiting = entry(clusterKey({ kind: 'unassigned', ...name }), encodeUnassigned(record));
    const as = (roles: readonly ('manager' | 'worker')[]): RegistryEntry => {
      const who = { name: 'n', generation: 1, host: 'h', port: 1, roles, dc: 'd', epoch: 1 };
      return entry(clusterKey({ kind: 'registration', node }), encodeRegistrationRecord(who));
    };
    assert.deepEqual(kinds([waiting, as(['manager']), stateEntry(state)]), []);
    assert.deepEqual(kinds([waiting, as(['manager', 'worker']), stateEntry(state)]), ['give']);
  });

  test('lets wait longer what could not be taken, each time', () => {
    const waits = [1, 2, 3, 20].map((attempts) => {
      const record = { hint: noHint, reason: 'take_failed', from: node, to: undefined, attempts } as const;
      const waiting = entry(clusterKey({ kind: 'unassigned', ...name }), encodeUnassigned(record));
      return nextDrainDueMs(ClusterView.from([waiting, registered, stateEntry(state)], 1, 0), 0, options);
    });
    assert.deepEqual(waits, [500, 1_000, 2_000, 60_000]);
  });
});
