import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { systemClock } from '../../io/system/clock.ts';
import type { WorkflowDefinition } from '../definition/workflow-context.ts';
import { checkedWorkflowOf } from '../definition/checked-workflow.ts';
import { deriveFacts } from '../definition/fact-derivation.ts';
import { noHttp, unitSpecFor } from '../../../test/support/runner/unit-harness.ts';
import { UnitExecution } from './unit-execution.ts';
import { workflow } from '../definition/workflow.ts';

function realUnit(definition: WorkflowDefinition): UnitExecution {
  const defined = checkedWorkflowOf(definition);
  assert.ok(defined !== undefined);
  const spec = { order: unitSpecFor(definition), facts: deriveFacts(definition), defined, fence: '1' };
  return new UnitExecution(spec, { clock: systemClock(), openHttp: noHttp, say: () => undefined });
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
      assert.deepEqual(await ended, { outcome: 'cancelled' });
      assert.ok(unit.run.summary.iterations > 0 && unit.run.summary.iterations < 100_000_000);
    });

    it(`${name} ends with its time`, async () => {
      const unit = realUnit(workflow('spinning', { vus: 3, duration: 50, steps: { one: each } }));
      assert.equal((await unit.execute()).outcome, 'completed');
    });
  }

  it('gets no more than its users even when arrivals are late', async () => {
    const unit = realUnit(
      workflow('late', { vus: 2, rate: 100_000, duration: 50, steps: { one: async () => undefined } }),
    );
    assert.equal((await unit.execute()).outcome, 'completed');
    const { iterations, dropped } = unit.run.summary;
    assert.equal(iterations + dropped, 5_000);
  });
});
