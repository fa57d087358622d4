import assert from 'node:assert/strict';
import { it } from 'node:test';
import { neverRare, rareLabels, rareTable } from './rare.ts';

it('never takes a rare path in real life', () => {
  for (const label of rareLabels) assert.equal(neverRare(label), false);
});

it('declares each label with a sentence', () => {
  assert.ok(rareLabels.length > 0);
  for (const label of rareLabels) {
    assert.match(label, /^[a-z]+(-[a-z]+)*$/);
    assert.match(rareTable[label], /^[A-Z].*\.$/);
  }
});
