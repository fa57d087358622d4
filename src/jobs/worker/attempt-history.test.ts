import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AttemptId } from '../../messages/jobs.ts';
import { AttemptHistory } from './attempt-history.ts';

function attempt(number: number, fence: bigint): AttemptId {
  return { job: 'j', workflow: 0, unit: 0, attempt: number, fence };
}

test('attempts are new, given again, stopped or old', () => {
  const memory = new AttemptHistory(10);
  assert.equal(memory.classify('j/0/0', attempt(2, 20n)), 'new');
  memory.recordAssigned('j/0/0', attempt(2, 20n));
  assert.equal(memory.classify('j/0/0', attempt(2, 20n)), 'again');
  assert.equal(memory.classify('j/0/0', attempt(1, 10n)), 'old');
  assert.equal(memory.classify('j/0/0', attempt(3, 30n)), 'new');
  memory.recordStopped('j/0/0', attempt(2, 20n));
  assert.equal(memory.classify('j/0/0', attempt(2, 20n)), 'stopped');
  memory.recordStopped('j/0/0', attempt(3, 30n));
  assert.equal(memory.classify('j/0/0', attempt(3, 30n)), 'stopped');
  memory.recordStopped('j/0/0', attempt(1, 10n));
  assert.equal(memory.classify('j/0/0', attempt(4, 40n)), 'new');
});

test('what was forgotten does not begin once more', () => {
  const memory = new AttemptHistory(10);
  for (let unit = 1; unit <= 100; unit++) memory.recordAssigned(`j/0/${unit}`, attempt(1, BigInt(unit)));
  assert.equal(memory.classify('j/0/100', attempt(1, 100n)), 'again');
  assert.equal(memory.classify('j/0/91', attempt(1, 91n)), 'again', 'the latest ten are known');
  assert.equal(memory.classify('j/0/1', attempt(1, 1n)), 'old');
  assert.equal(memory.classify('j/0/1', attempt(2, 101n)), 'new');
});

test('with one fence for all nothing is taken for forgotten', () => {
  const memory = new AttemptHistory(10);
  for (let unit = 1; unit <= 100; unit++) memory.recordAssigned(`j/0/${unit}`, attempt(1, 7n));
  assert.equal(memory.classify('j/0/101', attempt(1, 7n)), 'new');
});
