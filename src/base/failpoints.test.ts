import assert from 'node:assert/strict';
import { it } from 'node:test';
import { noFailpoints, failpointNames, failpointTable } from './failpoints.ts';

it('never takes a rare path in real life', () => {
  for (const label of failpointNames) assert.equal(noFailpoints(label), false);
});

it('declares each label with a sentence', () => {
  assert.ok(failpointNames.length > 0);
  for (const label of failpointNames) {
    assert.match(label, /^[a-z]+(-[a-z]+)*$/);
    assert.match(failpointTable[label], /^[A-Z].*\.$/);
  }
});
