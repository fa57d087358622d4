import assert from 'node:assert/strict';
import { it } from 'node:test';
import { noFailpoints, failpointNames, failpointTable } from './failpoints.ts';

it('fires no failpoint in production', () => {
  for (const name of failpointNames) assert.equal(noFailpoints(name), false);
});

it('declares each failpoint with a sentence', () => {
  assert.ok(failpointNames.length > 0);
  for (const name of failpointNames) {
    assert.match(name, /^[a-z]+(-[a-z]+)*$/);
    assert.match(failpointTable[name], /^[A-Z].*\.$/);
  }
});
