import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeSummary } from '../../jobs/report/summary-codec.ts';
import {
  type RunnerEvent,
  type RunnerCommand,
  runnerEventCodec,
  runnerCommandCodec,
} from '../../jobs/runner-protocol.ts';
import { type UnitSpec, encodeUnitSpec } from '../../jobs/unit-spec.ts';
import type { WorkflowDefinition } from '../definition/workflow-context.ts';
import { FakeClock } from '../../../test/fakes/fake-clock.ts';
import { noHttp, unitSpecFor } from '../../../test/support/runner/unit-harness.ts';
import { Runner } from './runner.ts';
import { workflow } from '../definition/workflow.ts';

const code = new Uint8Array([1, 2, 3]);

/** A runner without a process; `exported` returns the exports of its bundle. */
function testRunner(exported: () => object) {
  const clock = new FakeClock();
  const events: RunnerEvent[] = [];
  /** Number of events after each write to the pipe. */
  const writes: number[] = [];
  const endReasons: string[] = [];
  let imports = 0;
  let receive: (body: Uint8Array) => void = () => undefined;
  const runner = new Runner({
    channel: {
      data: new Uint8Array(0),
      clock,
      send: (body, isMore) => {
        events.push(runnerEventCodec.decode(body));
        if (isMore !== true) writes.push(events.length);
      },
      receive: (handler) => {
        receive = handler;
      },
    },
    openHttp: noHttp,
    importBundle: async () => {
      imports += 1;
      return exported();
    },
    endProcess: (why) => void endReasons.push(why),
  });
  const send = (command: RunnerCommand): void => receive(runnerCommandCodec.encode(command));
  const endOf = async (run: number): Promise<RunnerEvent & { readonly kind: 'ended' }> => {
    const isEnd = (event: RunnerEvent) => event.kind === 'ended' && event.runId === run;
    while (!events.some(isEnd)) await clock.until(clock.nowMs() + 50);
    return events.find(isEnd) as RunnerEvent & { readonly kind: 'ended' };
  };
  const start = (run: number, definition: WorkflowDefinition, changed: Partial<UnitSpec> = {}, withCode = true) =>
    send({
      kind: 'run',
      runId: run,
      spec: encodeUnitSpec(unitSpecFor(definition, changed)),
      code: withCode ? code : undefined,
      attempt: 2,
      fence: 12n,
    });
  return {
    runner,
    clock,
    events,
    writes,
    endReasons,
    start,
    send,
    receive: (body: Uint8Array) => receive(body),
    endOf,
    imports: () => imports,
  };
}

const sum = workflow('sum', { items: 3, each: (item) => item });
const slow = workflow('slow', { items: 10, each: (_item, ctx) => ctx.sleep(1_000) });

describe('a runner', () => {
  it('reports that it is ready, then executes runs and caches their bundle', async () => {
    const { events, start, endOf, imports } = testRunner(() => ({ default: sum }));
    assert.deepEqual(events, [{ kind: 'ready', prefetch: 64 }]);
    start(1, sum);
    const first = await endOf(1);
    start(2, sum, {}, false);
    const second = await endOf(2);
    assert.equal(imports(), 1);
    for (const end of [first, second]) {
      assert.deepEqual([end.outcome, end.completed, end.failed], ['completed', 3, 0]);
      assert.equal(new TextDecoder().decode(end.output), '[0,1,2]');
      assert.equal(decodeSummary(end.summary ?? new Uint8Array()).iterations, 3);
    }
    assert.deepEqual(
      events.map(({ kind }) => kind),
      ['ready', 'started', 'ended', 'started', 'ended'],
    );
  });

  it('reports its progress', async () => {
    const { events, start, endOf } = testRunner(() => ({ slow }));
    start(1, slow);
    await endOf(1);
    const progress = events.filter((event) => event.kind === 'progress');
    assert.equal(progress.length, 50);
    assert.ok(progress.every((event, i) => i === 0 || event.completed >= (progress[i - 1]?.completed ?? 0)));
    assert.equal(progress.filter(({ summary }) => summary !== undefined).length, 10);
  });

  it('stops a run, also before it has started', async () => {
    const { start, send, endOf, clock } = testRunner(() => ({ slow, sum }));
    start(1, slow);
    send({ kind: 'stop', runId: 1, reason: 'early' });
    assert.equal((await endOf(1)).outcome, 'cancelled');
    start(2, slow);
    await clock.until(clock.nowMs() + 2_500);
    send({ kind: 'stop', runId: 1, reason: 'not this one' });
    send({ kind: 'stop', runId: 2, reason: 'late' });
    const end = await endOf(2);
    assert.deepEqual([end.outcome, end.completed, end.failed], ['cancelled', 2, 0]);
    send({ kind: 'stop', runId: 2, reason: 'too late' });
    start(3, sum);
    assert.equal((await endOf(3)).outcome, 'completed');
  });

  it('reports errors of a bundle, and executes the next run', async () => {
    let exported: () => object = () => {
      throw new SyntaxError('Unexpected token');
    };
    const { start, endOf, imports } = testRunner(() => exported());
    start(1, sum);
    const broken = await endOf(1);
    assert.deepEqual(
      [broken.outcome, broken.code, broken.message],
      ['failed', 'BUNDLE_INVALID', 'SyntaxError: Unexpected token'],
    );
    exported = () => ({});
    start(2, sum);
    assert.match((await endOf(2)).message ?? '', /exports no workflow/);
    exported = () => ({ slow, sum: workflow('sum', { iterations: 1, steps: { one: () => 1 } }) });
    start(3, sum);
    assert.match((await endOf(3)).message ?? '', /is not a batch workflow/);
    start(4, workflow('other', { items: 1, each: () => 1 }), {}, false);
    assert.match((await endOf(4)).message ?? '', /the bundle has no workflow "other"/);
    start(5, sum, { bundle: 'unknown' }, false);
    assert.match((await endOf(5)).message ?? '', /came without its code/);
    assert.equal(imports(), 3);
  });

  it('records uncaught errors with the current run, and ignores them between runs', async () => {
    const { runner, start, endOf, clock } = testRunner(() => ({ slow }));
    runner.onUncaught(new Error('before'));
    start(1, slow);
    await clock.until(500);
    runner.onUncaught(new Error('late promise'));
    const end = await endOf(1);
    runner.onUncaught(new Error('after'));
    const { errorSamples, failed } = decodeSummary(end.summary ?? new Uint8Array());
    assert.deepEqual([...errorSamples.values()], [{ step: '(uncaught)', text: 'late promise', place: '', count: 1 }]);
    assert.equal(failed, 0);
  });

  it('executes prefetched runs in order, and cancels those that are stopped before their turn', async () => {
    const { events, start, send, endOf } = testRunner(() => ({ sum, slow }));
    start(1, slow);
    start(2, sum);
    start(3, sum);
    send({ kind: 'stop', runId: 2, reason: 'not wanted' });
    assert.equal((await endOf(2)).outcome, 'cancelled');
    assert.equal((await endOf(3)).outcome, 'completed');
    assert.deepEqual(
      events.flatMap((event) =>
        event.kind === 'started' || event.kind === 'ended' ? [`${event.kind} ${event.runId}`] : [],
      ),
      ['ended 2', 'started 1', 'ended 1', 'started 3', 'ended 3'],
    );
  });

  it('writes an end together with the next start, and holds no event back when nothing follows', async () => {
    const { events, writes, start, endOf } = testRunner(() => ({ sum }));
    start(1, sum);
    start(2, sum, {}, false);
    start(3, sum, {}, false);
    await endOf(3);
    const lines = events.map((event) => `${event.kind} ${'runId' in event ? event.runId : ''}`.trim());
    assert.deepEqual(lines, ['ready', 'started 1', 'ended 1', 'started 2', 'ended 2', 'started 3', 'ended 3']);
    assert.deepEqual(writes, [1, 2, 4, 6, 7]);
  });

  it('ends its process after too many runs or an invalid command, and reports code that keeps running', async () => {
    const stuck = workflow('stuck', { duration: 100, steps: { one: () => new Promise(() => undefined) } });
    const { start, receive, endReasons, endOf } = testRunner(() => ({ stuck, slow }));
    start(1, stuck);
    for (let run = 2; run <= 67; run++) start(run, slow);
    receive(new Uint8Array([9, 9, 9]));
    const end = await endOf(1);
    assert.deepEqual([end.outcome, end.tainted], ['completed', true]);
    assert.match(endReasons.join('\n'), /more than 64 prefetched runs\n.*invalid command/);
  });

  it('fails a run whose summary is too large to send', async () => {
    const wide = workflow('wide', {
      items: 1,
      each: (_item, { metrics }) => {
        for (let i = 0; i < 100; i++) for (let ms = 0.001; ms < 3_600_000; ms *= 1.007) metrics.trend(`trend ${i}`, ms);
      },
    });
    const { start, endOf } = testRunner(() => ({ wide }));
    start(1, wide);
    const end = await endOf(1);
    assert.deepEqual([end.outcome, end.code, end.completed], ['failed', 'TOO_LARGE', 1]);
  });
});
