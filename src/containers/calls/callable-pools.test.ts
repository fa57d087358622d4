import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallablePools } from './callable-pools.ts';

const clock = { nowMs: () => 0, wallMs: () => 0, schedule: () => () => {} };

function refusalOf(isConfirmed: boolean): string {
  return new CallablePools({ clock, table: { pool: () => undefined, isConfirmed } }, 1_000).refusal('kv').code;
}

test('a pool is unknown only once the registry has confirmed the table of the node', () => {
  assert.equal(refusalOf(true), 'UNKNOWN_POOL');
  assert.equal(refusalOf(false), 'DEADLINE', 'a node that has just started cannot know');
});
