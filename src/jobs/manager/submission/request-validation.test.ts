import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../../base/errors.ts';
import { bundle } from '../../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';
import { validateJobRequest } from './request-validation.ts';

const good = { bundle, workflows: [loadTestFacts('one'), batchTestFacts('two', { after: ['one'] })] };

test('a valid request is returned unchanged', () => {
  const request = {
    ...good,
    ...{ name: 'nightly', env: { TARGET: 'http://x' }, idempotencyKey: 'k', priority: 9, timeoutMs: 1_000, seed: 3 },
  };
  assert.deepEqual(validateJobRequest(request), request);
  assert.ok(validateJobRequest({ ...good, cron: '*/5 * * * mon-fri', idempotencyKey: 'name' }));
});

const one = (more: object) => ({ bundle, workflows: [{ ...loadTestFacts('one'), ...more }] });
const loads = (more: object) => one({ load: { ...loadTestFacts('one').load, ...more } });
const batches = (more: object) => ({
  bundle,
  workflows: [{ ...batchTestFacts('one'), batch: { ...batchTestFacts('one').batch, ...more } }],
});

const wrong: Readonly<Record<string, object>> = {
  'no bundle': { workflows: good.workflows },
  'a bundle that is not a hash': { ...good, bundle: 'abc' },
  'no workflows': { bundle },
  'an empty list of workflows': { bundle, workflows: [] },
  'too many workflows': { bundle, workflows: Array.from({ length: 101 }, (_, index) => loadTestFacts(`w${index}`)) },
  'a workflow that is not an object': { bundle, workflows: [7] },
  'two workflows with one name': { bundle, workflows: [loadTestFacts('one'), loadTestFacts('one')] },
  'an unknown dependency': one({ after: ['two'] }),
  'a workflow that depends on itself': one({ after: ['one'] }),
  'a cycle': {
    bundle,
    workflows: [
      loadTestFacts('a', { after: ['c'] }),
      loadTestFacts('b', { after: ['a'] }),
      loadTestFacts('c', { after: ['b'] }),
    ],
  },
  'a name with a line break': one({ name: 'a\nb' }),
  'a name that is too long': one({ name: 'a'.repeat(64) }),
  'no cores': one({ cores: 0 }),
  'negative cores': one({ cores: -1 }),
  'half a core': one({ cores: 0.5 }),
  'too many cores': one({ cores: 5_000 }),
  'a timeout of 0': one({ timeoutMs: 0 }),
  'a timeout that is not a number': one({ timeoutMs: Number.NaN }),
  'a timeout above the limit': one({ timeoutMs: 1e18 }),
  'too many retries': one({ maxRetries: 101 }),
  'network that is not a boolean': one({ network: 1 }),
  'thresholds that are a list of numbers': one({ thresholds: { failed: [1] } }),
  'an invalid threshold': one({ thresholds: { failed: ['rate is small'] } }),
  'an unknown style': one({ style: 'other' }),
  'a load without facts': one({ load: undefined }),
  'no users': loads({ vus: 0 }),
  'too many users': loads({ vus: 2_000_000 }),
  'a load that never ends': loads({ iterations: undefined }),
  'a load without steps': loads({ steps: [] }),
  'steps in a cycle': loads({
    steps: [
      { name: 'a', after: ['b'] },
      { name: 'b', after: ['a'] },
    ],
  }),
  'a step that depends on an unknown step': loads({ steps: [{ name: 'a', after: ['z'] }] }),
  'an invalid stage': loads({ stages: [{ durationMs: -1, target: 5 }] }),
  'a rate below zero': loads({ ratePerSecond: -1 }),
  'negative items': batches({ items: -1 }),
  'too many items': batches({ items: 1e9 }),
  'no items in a unit': batches({ unitItemsMax: 0 }),
  'a priority of ten': { ...good, priority: 10 },
  'a timeout of the job that is not a number': { ...good, timeoutMs: 'soon' },
  'an env of numbers': { ...good, env: { A: 1 } },
  'an env that is too large': { ...good, env: { A: 'x'.repeat(70_000) } },
  'cron without a name': { ...good, cron: '* * * * *' },
  'an invalid cron expression': { ...good, cron: 'every day', idempotencyKey: 'k' },
  'cron and a start time': { ...good, cron: '* * * * *', idempotencyKey: 'k', startAtMs: 5 },
  'an empty key': { ...good, idempotencyKey: '' },
};

for (const [what, request] of Object.entries(wrong))
  test(`a request is BAD_ARGUMENT with ${what}`, () => {
    assert.throws(
      () => validateJobRequest({ ...request }),
      (error) => isRemusterError(error, 'BAD_ARGUMENT'),
    );
  });
