import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AttemptId } from '../../messages/jobs.ts';
import { AttemptHistory } from './attempt-history.ts';

function attempt(number: number, fence: bigint): AttemptId {
  return { job: 'j', workflow: 0, unit: 0, attempt: number, fence };
}

test('an attempt history tells new, duplicate, stopped and stale attempts apart', () => {
  const history = new AttemptHistory(10);
  assert.equal(history.classify('j/0/0', attempt(2, 20n)), 'new');
  history.recordAssigned('j/0/0', attempt(2, 20n));
  assert.equal(history.classify('j/0/0', attempt(2, 20n)), 'duplicate');
  assert.equal(history.classify('j/0/0', attempt(1, 10n)), 'stale');
  assert.equal(history.classify('j/0/0', attempt(3, 30n)), 'new');
  history.recordStopped('j/0/0', attempt(2, 20n));
  assert.equal(history.classify('j/0/0', attempt(2, 20n)), 'stopped');
  history.recordStopped('j/0/0', attempt(3, 30n));
  assert.equal(history.classify('j/0/0', attempt(3, 30n)), 'stopped');
  history.recordStopped('j/0/0', attempt(1, 10n));
  assert.equal(history.classify('j/0/0', attempt(4, 40n)), 'new');
});

test('an attempt that an attempt history has dropped is stale', () => {
  const history = new AttemptHistory(10);
  for (let unit = 1; unit <= 100; unit++) history.recordAssigned(`j/0/${unit}`, attempt(1, BigInt(unit)));
  assert.equal(history.classify('j/0/100', attempt(1, 100n)), 'duplicate');
  assert.equal(history.classify('j/0/91', attempt(1, 91n)), 'duplicate', 'the latest ten units are remembered');
  assert.equal(history.classify('j/0/1', attempt(1, 1n)), 'stale');
  assert.equal(history.classify('j/0/1', attempt(2, 101n)), 'new');
});

test('an attempt history takes no new attempt for stale when all have the same fence', () => {
  const history = new AttemptHistory(10);
  for (let unit = 1; unit <= 100; unit++) history.recordAssigned(`j/0/${unit}`, attempt(1, 7n));
  assert.equal(history.classify('j/0/101', attempt(1, 7n)), 'new');
});
