import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import type { Outcome } from '../../src/base/errors.ts';
import type { Clock } from '../../src/base/ports.ts';
import { type LeaseId, type RegistryTransaction, onlyKey, withPrefix } from '../../src/base/registry.ts';
import { Timeline } from '../../src/simulation/engine/timeline.ts';
import { fakeRegistry } from './fake-registry.ts';

function virtual(): { timeline: Timeline; clock: Clock } {
  const timeline = new Timeline();
  const clock: Clock = {
    nowMs: () => timeline.nowMs,
    wallMs: () => timeline.nowMs,
    schedule: (delayMs, run) => timeline.after(delayMs, run),
  };
  return { timeline, clock };
}

function put(key: string, lease?: LeaseId): RegistryTransaction {
  const value = new TextEncoder().encode(key);
  return { compare: [], then: [{ kind: 'put', key, value, ...(lease && { lease }) }], otherwise: [] };
}

/** Records how a request ended: `ok`, or the error code. */
function ending(endings: string[]): (outcome: Outcome<unknown>) => void {
  return (outcome) => endings.push(outcome.ok ? 'ok' : outcome.error.code);
}

describe('the fake registry', () => {
  test('ends requests after they have returned, in the next turn', () => {
    const { timeline, clock } = virtual();
    const registry = fakeRegistry({ clock });
    const endings: string[] = [];
    registry.transact(put('a'), {}, ending(endings));
    registry.range(withPrefix(''), { limit: 0 }, ending(endings));
    registry.grant(1, {}, ending(endings));
    registry.keepAlive('x' as LeaseId, {}, ending(endings));
    assert.deepEqual(endings, []);
    timeline.runUntil(0);
    assert.deepEqual(endings, ['ok', 'BAD_ARGUMENT', 'BAD_ARGUMENT', 'BAD_ARGUMENT']);
  });

  test('expires leases a full TTL after their last renewal, with their keys', () => {
    const { timeline, clock } = virtual();
    const registry = fakeRegistry({ clock });
    const endings: string[] = [];
    registry.grant(1_000, {}, ending(endings));
    registry.transact(put('a', '1' as LeaseId), {}, ending(endings));
    timeline.runUntil(900);
    registry.keepAlive('1' as LeaseId, {}, ending(endings));
    timeline.runUntil(1_899);
    assert.equal(registry.keyspace.keyCount, 1);
    timeline.runUntil(1_900);
    assert.equal(registry.keyspace.keyCount, 0);
    registry.keepAlive('1' as LeaseId, {}, ending(endings));
    registry.revoke('1' as LeaseId, {}, ending(endings));
    timeline.runUntil(2_000);
    assert.deepEqual(endings, ['ok', 'ok', 'ok', 'LEASE_EXPIRED', 'ok']);
  });

  test('interrupts one connection while the others and the leases continue', () => {
    const { timeline, clock } = virtual();
    const registry = fakeRegistry({ clock });
    const connection = registry.connect();
    const seen: string[] = [];
    connection.watch(
      onlyKey('a'),
      { revision: 1 },
      {
        changed: (changes, revision) => seen.push(`${revision}:${changes.map(({ kind }) => kind).join()}`),
        compacted: (oldest) => seen.push(`compacted ${oldest}`),
      },
    );
    const endings: string[] = [];
    connection.interrupt('NO_QUORUM');
    connection.transact(put('b'), {}, ending(endings));
    registry.transact(put('a'), {}, () => {});
    timeline.runUntil(1);
    assert.deepEqual([endings, seen, registry.keyspace.revision], [['NO_QUORUM'], [], 1]);

    connection.interrupt('DEADLINE', { takesEffect: true });
    connection.transact(put('a'), { timeoutMs: 100 }, ending(endings));
    timeline.runUntil(50);
    assert.deepEqual([endings.length, registry.keyspace.revision], [1, 2]);
    timeline.runUntil(101);
    assert.deepEqual(endings, ['NO_QUORUM', 'DEADLINE']);

    connection.interrupt();
    connection.transact(put('a'), { timeoutMs: 100 }, ending(endings));
    connection.transact(put('a'), { timeoutMs: 500 }, ending(endings));
    timeline.runUntil(300);
    connection.resume();
    timeline.runUntil(301);
    assert.deepEqual(endings, ['NO_QUORUM', 'DEADLINE', 'DEADLINE', 'ok']);
    assert.deepEqual(seen, ['1:put', '2:put', '3:put']);
  });

  test('ends a watch from a compacted revision, and one that is cancelled', () => {
    const { timeline, clock } = virtual();
    const registry = fakeRegistry({ clock, limits: { historyChangesMax: 1 } });
    for (const key of ['a', 'b', 'c']) registry.transact(put(key), {}, () => {});
    const seen: string[] = [];
    const events = {
      changed: () => seen.push('changed'),
      compacted: (oldest: number) => seen.push(`compacted ${oldest}`),
    };
    registry.watch(withPrefix(''), { revision: 1 }, events);
    registry.watch(withPrefix(''), { revision: 3 }, events)();
    timeline.runUntil(1);
    assert.deepEqual(seen, ['compacted 3']);
    assert.throws(() => registry.watch(withPrefix(''), { revision: 0 }, events), /revision 1/);
  });
});
