/** Shared by tests of the runner: a clock that tests advance, fake HTTP, and units without a process. */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { RemusterError } from '../../../src/base/errors.ts';
import type { Cancel, Clock } from '../../../src/base/ports.ts';
import type { UnitSpec } from '../../../src/jobs/unit-spec.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import type { WorkflowDefinition } from '../../../src/runner/definition/workflow-context.ts';
import { checkedWorkflowOf } from '../../../src/runner/definition/checked-workflow.ts';
import { type FactsOverrides, deriveFacts } from '../../../src/runner/definition/fact-derivation.ts';
import type { HttpClient, HttpRecorder, OpenHttp } from '../../../src/runner/definition/http-types.ts';
import { UnitExecution, type UnitExecutionEnd } from '../../../src/runner/execution/unit-execution.ts';

export class FakeClock implements Clock {
  readonly #timeline = new Timeline();

  nowMs(): number {
    return this.#timeline.nowMs;
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#timeline.nowMs;
  }

  schedule(delayMs: number, run: () => void): Cancel {
    return this.#timeline.after(delayMs, run);
  }

  /** Advances time, event by event, until the work has settled. */
  async during<T>(work: Promise<T>): Promise<T> {
    let isSettled = false;
    const onSettled = (): void => {
      isSettled = true;
    };
    work.then(onSettled, onSettled);
    await setImmediate();
    while (!isSettled) {
      assert.ok(this.#timeline.step(), 'the work waits, but no event is scheduled');
      await setImmediate();
    }
    return work;
  }

  /** Advances time until that moment. */
  async until(atMs: number): Promise<void> {
    const reached = Promise.withResolvers<void>();
    this.schedule(atMs - this.nowMs(), () => reached.resolve());
    await this.during(reached.promise);
  }
}

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
