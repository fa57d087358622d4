/** Shared by tests of the runner: fake HTTP, and units without a process. */
import assert from 'node:assert/strict';
import { RemusterError } from '../../../src/base/errors.ts';
import type { UnitSpec } from '../../../src/jobs/unit-spec.ts';
import type { WorkflowDefinition } from '../../../src/runner/definition/workflow-context.ts';
import { checkedWorkflowOf } from '../../../src/runner/definition/checked-workflow.ts';
import { type FactsOverrides, deriveFacts } from '../../../src/runner/definition/fact-derivation.ts';
import type { HttpClient, HttpRecorder, OpenHttp } from '../../../src/runner/definition/http-types.ts';
import { FakeClock } from '../../fakes/fake-clock.ts';
import { UnitExecution, type UnitExecutionEnd } from '../../../src/runner/execution/unit-execution.ts';

export const noHttp: OpenHttp = () => {
  throw new RemusterError('FORBIDDEN', 'there is no network in this test');
};

/** Responds after 10 ms with the status in the path. */
const fakeHttp: OpenHttp = ({ clock }) => {
  const request = async (recorder: HttpRecorder, url: string): Promise<never> => {
    await new Promise<void>((resolve) => void clock.schedule(10, resolve));
    const status = Number(url.slice(1));
    recorder.recordRequest({ durationUs: 10_000, bytesIn: 200, bytesOut: 100, ok: status > 0 && status < 400 });
    if (status === 0) throw new RemusterError('UNREACHABLE', 'the fake server is unreachable');
    return { status } as never;
  };
  const clientFor = (recorder: HttpRecorder): HttpClient => {
    const send = (url: string): Promise<never> => request(recorder, url);
    return { get: send, head: send, post: send, put: send, patch: send, delete: send, request: send };
  };
  return { clientFor, close: () => undefined };
};

export function unitSpecFor(
  definition: WorkflowDefinition,
  changed: Partial<UnitSpec> = {},
  facts = deriveFacts(definition),
) {
  return {
    job: 'j1',
    workflow: 0,
    unit: 0,
    units: 1,
    phase: 'whole',
    bundle: 'b1',
    facts: JSON.stringify(facts),
    env: new Map(),
    seed: 1,
    users: undefined,
    iterations: undefined,
    items: undefined,
    data: undefined,
    context: '{}',
    network: true,
    memoryMb: 256,
    timeoutMs: 60_000,
    submitter: 's',
    ...changed,
  } satisfies UnitSpec;
}

export type TestUnit = {
  readonly unit: UnitExecution;
  readonly clock: FakeClock;
  readonly lines: string[];
  /** Executes the unit to its end. */
  readonly ended: () => Promise<UnitExecutionEnd>;
};

export function startTestUnit(
  definition: WorkflowDefinition,
  changed: Partial<UnitSpec> = {},
  overrides: FactsOverrides = {},
): TestUnit {
  const clock = new FakeClock();
  const lines: string[] = [];
  const checked = checkedWorkflowOf(definition);
  assert.ok(checked !== undefined);
  const facts = deriveFacts(definition, overrides);
  const unit = new UnitExecution(
    { unit: unitSpecFor(definition, changed, facts), facts, workflow: checked, fence: '7' },
    { clock, openHttp: fakeHttp, log: (level, text) => void lines.push(`${level} ${text}`) },
  );
  return { unit, clock, lines, ended: () => clock.during(unit.execute()) };
}
