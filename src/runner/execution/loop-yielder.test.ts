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
  const checked = checkedWorkflowOf(definition);
  assert.ok(checked !== undefined);
  const spec = { unit: unitSpecFor(definition), facts: deriveFacts(definition), workflow: checked, fence: '1' };
  return new UnitExecution(spec, { clock: systemClock(), openHttp: noHttp, log: () => undefined });
}

/** On a real clock: the test is about the event loop. */
describe('code that never yields', { timeout: 120_000 }, () => {
  for (const [name, each] of [
    ['without promises', () => undefined],
    ['with resolved promises', async () => undefined],
  ] as const) {
    it(`${name} does not delay a stop`, async () => {
      const unit = realUnit(workflow('endless', { items: 100_000_000, concurrency: 3, each }));
      const ended = unit.execute();
      await setTimeout(20);
      unit.stop('enough');
      assert.deepEqual(await ended, { outcome: 'cancelled' });
      assert.ok(unit.run.summary.iterations > 0 && unit.run.summary.iterations < 100_000_000);
    });

    it(`${name} ends after its duration`, async () => {
      const unit = realUnit(workflow('spinning', { vus: 3, duration: 50, steps: { one: each } }));
      assert.equal((await unit.execute()).outcome, 'completed');
    });
  }

  it('drops late arrivals without a free user', async () => {
    const unit = realUnit(
      workflow('late', { vus: 2, rate: 100_000, duration: 50, steps: { one: async () => undefined } }),
    );
    assert.equal((await unit.execute()).outcome, 'completed');
    const { iterations, dropped } = unit.run.summary;
    assert.equal(iterations + dropped, 5_000);
  });
});
