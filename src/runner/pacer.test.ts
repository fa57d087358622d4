import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { systemClock } from '../io/clock.ts';
import type { WorkflowDefinition } from './context.ts';
import { definedOf } from './definition.ts';
import { factsOf } from './facts.ts';
import { noHttp, orderOf } from './fixtures.test.ts';
import { Unit } from './unit.ts';
import { workflow } from './workflow.ts';

function realUnit(definition: WorkflowDefinition): Unit {
  const defined = definedOf(definition);
  assert.ok(defined !== undefined);
  const spec = { order: orderOf(definition), facts: factsOf(definition), defined, fence: '1' };
  return new Unit(spec, { clock: systemClock(), openHttp: noHttp, say: () => undefined });
}

/** On a real clock: what is tested here is that others get their turn. */
describe('code that never waits', { timeout: 120_000 }, () => {
  for (const [name, each] of [
    ['at all', () => undefined],
    ['for more than a promise', async () => undefined],
  ] as const) {
    it(`${name} does not keep a stop from being heard`, async () => {
      const unit = realUnit(workflow('endless', { items: 100_000_000, concurrency: 3, each }));
      const ended = unit.execute();
      await setTimeout(20);
      unit.stop('enough');
      assert.deepEqual(await ended, { what: 'cancelled' });
      assert.ok(unit.run.summary.iterations > 0 && unit.run.summary.iterations < 100_000_000);
    });

    it(`${name} ends with its time`, async () => {
      const unit = realUnit(workflow('spinning', { vus: 3, duration: 50, steps: { one: each } }));
      assert.equal((await unit.execute()).what, 'completed');
    });
  }

  it('gets no more than its users even when arrivals are late', async () => {
    const unit = realUnit(
      workflow('late', { vus: 2, rate: 100_000, duration: 50, steps: { one: async () => undefined } }),
    );
    assert.equal((await unit.execute()).what, 'completed');
    const { iterations, dropped } = unit.run.summary;
    assert.equal(iterations + dropped, 5_000);
  });
});
