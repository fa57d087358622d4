/** What the tests of runners share: a clock that stands still until it is told, and units without a process. */
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

  /** Time passes, event by event, until it has ended. */
  async during<T>(work: Promise<T>): Promise<T> {
    let isOver = false;
    const ended = (): void => {
      isOver = true;
    };
    work.then(ended, ended);
    await setImmediate();
    while (!isOver) {
      assert.ok(this.#timeline.step(), 'it waits for something that never comes');
      await setImmediate();
    }
    return work;
  }

  /** Until that moment, whoever waits. */
  async until(atMs: number): Promise<void> {
    const reached = Promise.withResolvers<void>();
    this.schedule(atMs - this.nowMs(), () => reached.resolve());
    await this.during(reached.promise);
  }
}

export const noHttp: OpenHttp = () => {
  throw new RemusterError('FORBIDDEN', 'there is no network in this test');
};

/** Answers with the status that the path says, after 10 ms. */
const fakeHttp: OpenHttp = ({ clock }) => {
  const request = async (recorder: HttpRecorder, url: string): Promise<never> => {
    await new Promise<void>((resolve) => void clock.schedule(10, resolve));
    const status = Number(url.slice(1));
    recorder.httpEnded({ durationUs: 10_000, bytesIn: 200, bytesOut: 100, ok: status > 0 && status < 400 });
    if (status === 0) throw new RemusterError('UNREACHABLE', 'nobody is there');
    return { status } as never;
  };
  const clientFor = (recorder: HttpRecorder): HttpClient => {
    const ask = (url: string): Promise<never> => request(recorder, url);
    return { get: ask, head: ask, post: ask, put: ask, patch: ask, delete: ask, request: ask };
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
  /** Runs it to its end. */
  readonly ended: () => Promise<UnitExecutionEnd>;
};

export function startTestUnit(
  definition: WorkflowDefinition,
  changed: Partial<UnitSpec> = {},
  overrides: FactsOverrides = {},
): TestUnit {
  const clock = new FakeClock();
  const lines: string[] = [];
  const defined = checkedWorkflowOf(definition);
  assert.ok(defined !== undefined);
  const facts = deriveFacts(definition, overrides);
  const unit = new UnitExecution(
    { order: unitSpecFor(definition, changed, facts), facts, defined, fence: '7' },
    { clock, openHttp: fakeHttp, say: (level, text) => void lines.push(`${level} ${text}`) },
  );
  return { unit, clock, lines, ended: () => clock.during(unit.execute()) };
}
