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
import { FakeClock, noHttp, unitSpecFor } from '../../../test/support/runner/unit-harness.ts';
import { Runner } from './runner.ts';
import { workflow } from '../definition/workflow.ts';

const code = new Uint8Array([1, 2, 3]);

/** A runner without a process; `exported` is what its code exports. */
function testRunner(exported: () => object) {
  const clock = new FakeClock();
  const said: RunnerEvent[] = [];
  /** How many words there were after each. */
  const writes: number[] = [];
  const retired: string[] = [];
  let imports = 0;
  let hear: (body: Uint8Array) => void = () => undefined;
  const runner = new Runner({
    channel: {
      data: new Uint8Array(0),
      clock,
      send: (body, isMore) => {
        said.push(runnerEventCodec.decode(body));
        if (isMore !== true) writes.push(said.length);
      },
      receive: (handler) => {
        hear = handler;
      },
    },
    openHttp: noHttp,
    importBundle: async () => {
      imports += 1;
      return exported();
    },
    endProcess: (why) => void retired.push(why),
  });
  const tell = (word: RunnerCommand): void => hear(runnerCommandCodec.encode(word));
  const endOf = async (run: number): Promise<RunnerEvent & { readonly kind: 'ended' }> => {
    const isEnd = (word: RunnerEvent) => word.kind === 'ended' && word.runId === run;
    while (!said.some(isEnd)) await clock.until(clock.nowMs() + 50);
    return said.find(isEnd) as RunnerEvent & { readonly kind: 'ended' };
  };
  const start = (run: number, definition: WorkflowDefinition, changed: Partial<UnitSpec> = {}, withCode = true) =>
    tell({
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
    said,
    writes,
    retired,
    start,
    tell,
    hear: (body: Uint8Array) => hear(body),
    endOf,
    imports: () => imports,
  };
}

const sum = workflow('sum', { items: 3, each: (item) => item });
const slow = workflow('slow', { items: 10, each: (_item, ctx) => ctx.sleep(1_000) });

describe('a runner', () => {
  it('says that it is ready, then runs what it is given, with code that it keeps', async () => {
    const { said, start, endOf, imports } = testRunner(() => ({ default: sum }));
    assert.deepEqual(said, [{ kind: 'ready', prefetch: 64 }]);
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
      said.map(({ kind }) => kind),
      ['ready', 'started', 'ended', 'started', 'ended'],
    );
  });

  it('says how far it is', async () => {
    const { said, start, endOf } = testRunner(() => ({ slow }));
    start(1, slow);
    await endOf(1);
    const progress = said.filter((word) => word.kind === 'progress');
    assert.equal(progress.length, 50);
    assert.ok(progress.every((word, i) => i === 0 || word.completed >= (progress[i - 1]?.completed ?? 0)));
    assert.equal(progress.filter(({ summary }) => summary !== undefined).length, 10);
  });

  it('stops, also before it has begun', async () => {
    const { start, tell, endOf, clock } = testRunner(() => ({ slow, sum }));
    start(1, slow);
    tell({ kind: 'stop', runId: 1, reason: 'early' });
    assert.equal((await endOf(1)).outcome, 'cancelled');
    start(2, slow);
    await clock.until(clock.nowMs() + 2_500);
    tell({ kind: 'stop', runId: 1, reason: 'not this one' });
    tell({ kind: 'stop', runId: 2, reason: 'late' });
    const end = await endOf(2);
    assert.deepEqual([end.outcome, end.completed, end.failed], ['cancelled', 2, 0]);
    tell({ kind: 'stop', runId: 2, reason: 'too late' });
    start(3, sum);
    assert.equal((await endOf(3)).outcome, 'completed');
  });

  it('says what is wrong with the code, and takes the next run', async () => {
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
    assert.match((await endOf(3)).message ?? '', /is no batch workflow/);
    start(4, workflow('other', { items: 1, each: () => 1 }), {}, false);
    assert.match((await endOf(4)).message ?? '', /there is no workflow "other"/);
    start(5, sum, { bundle: 'unknown' }, false);
    assert.match((await endOf(5)).message ?? '', /its code did not come with it/);
    assert.equal(imports(), 3);
  });

  it('tells what nobody waited for with the run that is on, and passes over it afterwards', async () => {
    const { runner, start, endOf, clock } = testRunner(() => ({ slow }));
    runner.uncaught(new Error('before'));
    start(1, slow);
    await clock.until(500);
    runner.uncaught(new Error('late promise'));
    const end = await endOf(1);
    runner.uncaught(new Error('after'));
    const { errorSamples, failed } = decodeSummary(end.summary ?? new Uint8Array());
    assert.deepEqual([...errorSamples.values()], [{ step: '(uncaught)', text: 'late promise', place: '', count: 1 }]);
    assert.equal(failed, 0);
  });

  it('does runs that are given ahead in their order, and gives those back that are to stop before their turn', async () => {
    const { said, start, tell, endOf } = testRunner(() => ({ sum, slow }));
    start(1, slow);
    start(2, sum);
    start(3, sum);
    tell({ kind: 'stop', runId: 2, reason: 'not wanted' });
    assert.equal((await endOf(2)).outcome, 'cancelled');
    assert.equal((await endOf(3)).outcome, 'completed');
    assert.deepEqual(
      said.flatMap((word) => (word.kind === 'started' || word.kind === 'ended' ? [`${word.kind} ${word.runId}`] : [])),
      ['ended 2', 'started 1', 'ended 1', 'started 3', 'ended 3'],
    );
  });

  it('says an end together with the next start, and never keeps a word back when nothing follows', async () => {
    const { said, writes, start, endOf } = testRunner(() => ({ sum }));
    start(1, sum);
    start(2, sum, {}, false);
    start(3, sum, {}, false);
    await endOf(3);
    const words = said.map((word) => `${word.kind} ${'runId' in word ? word.runId : ''}`.trim());
    assert.deepEqual(words, ['ready', 'started 1', 'ended 1', 'started 2', 'ended 2', 'started 3', 'ended 3']);
    assert.deepEqual(writes, [1, 2, 4, 6, 7]);
  });

  it('is of no use any more with too many runs, words it does not know, or code that goes on', async () => {
    const stuck = workflow('stuck', { duration: 100, steps: { one: () => new Promise(() => undefined) } });
    const { start, hear, retired, endOf } = testRunner(() => ({ stuck, slow }));
    start(1, stuck);
    for (let run = 2; run <= 67; run++) start(run, slow);
    hear(new Uint8Array([9, 9, 9]));
    const end = await endOf(1);
    assert.deepEqual([end.outcome, end.tainted], ['completed', true]);
    assert.match(retired.join('\n'), /more runs than it keeps\n.*does not understand/);
  });

  it('says when what was counted cannot be told', async () => {
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
