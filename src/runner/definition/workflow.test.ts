import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { deriveFacts, exportedWorkflows } from './fact-derivation.ts';
import { workflow } from './workflow.ts';

const nothing = (): void => undefined;

/** Calls workflow() as JavaScript code does, without types. */
function untyped(name: unknown, spec: unknown): unknown {
  return (workflow as (name: unknown, spec: unknown) => unknown)(name, spec);
}

function refused(name: unknown, spec: unknown, pattern: RegExp): void {
  assert.throws(
    () => untyped(name, spec),
    (error) => isRemusterError(error, 'BAD_ARGUMENT') && pattern.test(error.message),
    `${JSON.stringify(spec)} should be refused with ${pattern}`,
  );
}

describe('a load test', () => {
  it('has the facts of the contract', () => {
    const checkout = workflow('checkout', {
      vus: 200,
      duration: '30s',
      cores: 2,
      thresholds: { 'http.duration': ['p(99)<250ms'], failed: ['rate<1%'] },
      setup: async (ctx) => ({ base: ctx.env['TARGET'] ?? '' }),
      steps: {
        browse: async (ctx) => ctx.http.get(`${ctx.data.base}/`),
        buy: async (ctx) =>
          ctx.check(await ctx.http.post(`${ctx.data.base}/buy`, { json: { n: 1 } }), (r) => r.status === 200),
      },
    });
    assert.deepEqual(deriveFacts(checkout), {
      name: 'checkout',
      style: 'load',
      cores: 2,
      after: [],
      timeoutMs: 3_630_000,
      maxRetries: 3,
      network: true,
      memoryMb: 256,
      hasSetup: true,
      hasTeardown: false,
      thresholds: { 'http.duration': ['p(99)<250ms'], failed: ['rate<1%'] },
      load: {
        vus: 200,
        durationMs: 30_000,
        steps: [
          { name: 'browse', after: [] },
          { name: 'buy', after: ['browse'] },
        ],
      },
    });
  });

  it('starts its stages at vus', () => {
    const ramp = workflow('ramp', {
      vus: 5,
      stages: [
        { duration: '10s', target: 50 },
        { duration: 5_000, target: 0 },
      ],
      steps: { one: nothing },
    });
    const { load } = deriveFacts(ramp);
    assert.deepEqual(load?.stages?.[0], { durationMs: 0, target: 5 });
    assert.equal(load?.vus, 50);
    assert.equal(load?.durationMs, 15_000);
  });

  it('has enough users for its rate', () => {
    const open = workflow('open', { rate: 100, duration: '1m', steps: { one: nothing } });
    assert.equal(deriveFacts(open).load?.vus, 1_000);
    assert.equal(deriveFacts(open).load?.ratePerSecond, 100);
  });

  it('takes overrides, which replace its stages', () => {
    const ramp = workflow('ramp', { stages: [{ duration: '10s', target: 50 }], steps: { one: nothing } });
    const facts = deriveFacts(ramp, { cores: 4, vus: 7, durationMs: 2_000, set: { retries: '0', timeout: '1m' } });
    assert.deepEqual(facts.load, { vus: 7, durationMs: 2_000, steps: [{ name: 'one', after: [] }] });
    assert.deepEqual([facts.cores, facts.maxRetries, facts.timeoutMs], [4, 0, 60_000]);
    assert.throws(() => deriveFacts(ramp, { set: { colour: 'red' } }), /colour is not a field/);
    assert.throws(() => deriveFacts(ramp, { vus: 0 }), /vus must be/);
  });

  it('can have steps with several dependencies', () => {
    const graph = workflow('graph', {
      iterations: 3,
      steps: { a: nothing, b: nothing, c: { after: ['a', 'b'], run: nothing } },
    });
    assert.deepEqual(deriveFacts(graph).load?.steps, [
      { name: 'a', after: [] },
      { name: 'b', after: [] },
      { name: 'c', after: ['a', 'b'] },
    ]);
  });
});

describe('a batch job', () => {
  it('has the facts of the contract', () => {
    const resize = workflow('resize', {
      after: ['checkout'],
      items: async (ctx) => ctx.range(1000),
      each: async (item) => ({ item }),
    });
    const { batch, after, network } = deriveFacts(resize);
    assert.deepEqual(after, ['checkout']);
    assert.equal(network, false);
    assert.deepEqual(batch, { firstOnly: false, concurrency: 1, unitItemsMax: 1_000, keepResults: true });
  });

  it('has a failure policy, which a submitter can override', () => {
    const tolerant = workflow('tolerant', { items: 10, onItemError: 'continue', each: nothing });
    assert.equal(deriveFacts(tolerant).batch?.onItemError, 'continue');
    assert.equal(deriveFacts(tolerant, { set: { onItemError: 'stop' } }).batch?.onItemError, 'stop');
    const limited = workflow('limited', { items: 10, maxFailures: 3, each: nothing });
    assert.equal(deriveFacts(limited).batch?.maxFailures, 3);
    assert.equal(deriveFacts(limited, { set: { maxFailures: '5' } }).batch?.maxFailures, 5);
    assert.throws(
      () => deriveFacts(limited, { set: { onItemError: 'continue' } }),
      /maxFailures cannot be combined with/,
    );
    assert.throws(() => deriveFacts(limited, { set: { onItemError: 'ignore' } }), /one of fail, stop, continue/);
  });

  it('is divided into units by its cores, but not into too many', () => {
    const count = (items: number, cores: number): number | undefined =>
      deriveFacts(workflow('sum', { items, each: nothing }), { cores }).batch?.unitItemsMax;
    assert.equal(count(1_000, 4), 32);
    assert.equal(count(0, 4), 1);
    assert.equal(count(100_000_000, 1), 100_000);
    assert.equal(count(100_000_000, 4_096), Math.ceil(100_000_000 / 4_096));
    const own = workflow('own', { items: [1, 2, 3], unitItems: 2, each: nothing });
    assert.equal(deriveFacts(own, { cores: 100 }).batch?.unitItemsMax, 2);
    assert.equal(deriveFacts(own, { set: { unitItems: '1' } }).batch?.unitItemsMax, 1);
  });
});

describe('an invalid definition', () => {
  it('is refused with the name of the field', () => {
    const steps = { one: nothing };
    refused('Has Spaces', { steps, iterations: 1 }, /cannot be the name of a workflow/);
    refused(7, { steps }, /cannot be the name/);
    refused('x', undefined, /must be an object/);
    refused('x', {}, /exactly one of them/);
    refused('x', { steps, each: nothing }, /exactly one of them/);
    refused('x', { steps }, /duration is missing/);
    refused('x', { steps, iterations: 1, colour: 'red' }, /colour is not a field; known fields are cores/);
    for (const vus of [0, -1, 1.5, NaN, 1e9, '7']) refused('x', { steps, iterations: 1, vus }, /vus must be/);
    for (const cores of [0, 1e9, NaN]) refused('x', { steps, iterations: 1, cores }, /cores must be/);
    for (const timeout of [0, NaN, 1e18, '7 weeks']) refused('x', { steps, iterations: 1, timeout }, /timeout must/);
    const batch = { items: 1, each: nothing };
    refused('x', { ...batch, onItemError: 'ignore' }, /onItemError must be one of fail, stop, continue/);
    for (const maxFailures of [-1, 0.5, '1', NaN])
      refused('x', { ...batch, maxFailures }, /maxFailures must be a whole/);
    for (const onItemError of ['stop', 'continue'])
      refused('x', { ...batch, onItemError, maxFailures: 1 }, /maxFailures cannot be combined with onItemError/);
    const thresholds = { failed: ['rate<1%'] };
    refused(
      'x',
      { ...batch, onItemError: 'stop', thresholds },
      /onItemError cannot be 'stop' together with a threshold/,
    );
    refused('x', { steps, iterations: 1, onItemError: 'stop' }, /onItemError is for batches/);
    refused('x', { steps, iterations: 1, maxFailures: 1 }, /maxFailures is for batches/);
    refused('x', { steps, iterations: 1, memory: 1 }, /memory must be/);
    refused(
      'x',
      { steps, duration: '1s', stages: [{ duration: 1, target: 1 }] },
      /duration cannot be combined with stages/,
    );
    refused('x', { steps, stages: [{ target: 1 }] }, /stages\[0\] needs a duration and a target/);
    refused('x', { steps: {}, iterations: 1 }, /steps must have 1 to 100/);
    refused('x', { steps: { 7: nothing }, iterations: 1 }, /steps.7 is not a valid name/);
    refused('x', { steps: { a: 5 }, iterations: 1 }, /steps.a must be a function/);
    refused('x', { steps: { a: {} }, iterations: 1 }, /steps.a.run is missing/);
    refused('x', { steps: { a: { run: nothing, after: ['b'] } }, iterations: 1 }, /steps.a.after names "b"/);
    const cycle = { a: { run: nothing, after: ['b'] }, b: { run: nothing, after: ['a'] } };
    refused('x', { steps: cycle, iterations: 1 }, /have a dependency cycle: a after b after a/);
    const twice = (flow: { step(name: string, run: unknown): typeof flow }) =>
      flow.step('a', nothing).step('a', nothing);
    refused('x', { steps: twice, iterations: 1 }, /steps.a is defined twice/);
    refused('x', { steps: nothing, iterations: 1 }, /steps must have 1 to 100 steps, not 0/);
    refused('x', { steps, iterations: 1, think: ['3s', '1s'] }, /think must be/);
    refused('x', { steps, iterations: 1, thresholds: { failed: ['often'] } }, /thresholds\["failed"\] "often" is no/);
    refused('x', { steps, iterations: 1, env: { A: 1 } }, /env must be/);
    refused('x', { each: nothing }, /items is missing/);
    refused('x', { each: nothing, items: 'abc' }, /items must be/);
    refused('x', { each: nothing, items: -1 }, /items must be/);
    refused('x', { each: 5, items: 1 }, /each must be a function/);
    refused('x', { each: nothing, items: 1, vus: 5 }, /vus is not a field/);
    refused('x', { each: nothing, items: 1, first: 'yes' }, /first must be true or false/);
  });
});

describe('the exported workflows of a file', () => {
  const one = (name: string, after: readonly string[] = []) => workflow(name, { items: 1, after, each: nothing });

  it('come with the default export first', () => {
    const [a, b, c] = [one('a'), one('b'), one('c')];
    const found = exportedWorkflows({ a, b, default: c, helper: nothing, text: 'x', again: c });
    assert.deepEqual(
      found.map(({ name }) => name),
      ['c', 'a', 'b'],
    );
  });

  it('need different names and no dependency cycle', () => {
    assert.throws(() => exportedWorkflows({ helper: nothing }), /exports no workflow/);
    assert.throws(() => exportedWorkflows({ x: one('a'), y: one('a') }), /two workflows have the name "a"/);
    assert.throws(() => exportedWorkflows({ x: one('a', ['b']) }), /after names "b", which is not exported/);
    assert.throws(() => exportedWorkflows({ x: one('a', ['b']), y: one('b', ['a']) }), /a after b after a/);
    assert.throws(() => deriveFacts({ name: 'x' }), /is not a workflow/);
  });
});
