import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, describe, it } from 'node:test';
import type { RunningProgram } from '../../base/ports.ts';
import { bundleModule } from '../../io/bundle/bundler.ts';
import { openRunners } from '../../io/runner/runners.ts';
import { decodeSummary } from '../../jobs/report/summary-codec.ts';
import { type RunnerEvent, runnerEventCodec, runnerCommandCodec } from '../../jobs/runner-protocol.ts';
import { type UnitSpec, encodeUnitSpec } from '../../jobs/unit-spec.ts';
import { deriveFacts } from '../definition/fact-derivation.ts';
import { unitSpecFor } from '../../../test/support/runner/unit-harness.ts';
import { runnerProgram } from './main.ts';
import { workflow } from '../definition/workflow.ts';

type EndedEvent = RunnerEvent & { readonly kind: 'ended' };

const source = `
import { connect, workflow, RemusterError, type WorkflowDefinition } from 'remuster';
import { double } from './double.ts';

const later: Promise<unknown>[] = [];

const sum = workflow('sum', {
  items: [1, 2, 3, 4],
  concurrency: 2,
  each: async (item: number, ctx) => {
    await ctx.sleep(item);
    if (item === 3) throw new RemusterError('PRECONDITION', 'three is refused');
    return double(item);
  },
});
export { sum as default };
export const rights = workflow('rights', {
  items: 1,
  each: async () => {
    const tried: string[] = [];
    const attempt = async (name: string, run: () => unknown) => {
      try { await run(); tried.push(name + ' worked'); } catch (error) { tried.push(name + ' ' + (error as { code: string }).code); }
    };
    await attempt('read', async () => (await import('node:fs')).readFileSync('/etc/passwd'));
    await attempt('spawn', async () => (await import('node:child_process')).execSync('true'));
    await attempt('connect', () => connect({ addr: '127.0.0.1:1' }));
    tried.push(String(Object.keys(process.env).length));
    return tried;
  },
});
export const late = workflow('late', {
  items: 1,
  each: () => {
    later.push(Promise.reject(new Error('not awaited')));
    setTimeout(() => { throw new Error('from a timer'); }, 1);
  },
});
export const load = workflow('load', {
  vus: 3,
  iterations: 9,
  setup: (ctx) => ({ base: ctx.env['BASE'] }),
  steps: { one: async (ctx) => { await ctx.sleep(1); return ctx.data.base; }, two: (ctx) => ctx.results.one.length },
});
export const definitions: WorkflowDefinition[] = [load];
`;

/** Definitions with the same facts as the exports of the source above, as a submitter has them. */
const known = {
  sum: workflow('sum', { items: 4, concurrency: 2, each: () => 0 }),
  rights: workflow('rights', { items: 1, each: () => 0 }),
  late: workflow('late', { items: 1, each: () => 0 }),
  load: workflow('load', { vus: 3, iterations: 9, setup: () => 0, steps: { one: () => 0, two: () => 0 } }),
};

async function bundled(t: TestContext): Promise<Uint8Array> {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-runner-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'jobs.ts'), source);
  writeFileSync(join(folder, 'double.ts'), 'export const double = (n: number): number => n * 2;\n');
  return bundleModule(join(folder, 'jobs.ts'));
}

async function realRunner(t: TestContext) {
  const code = await bundled(t);
  const waiting = new Map<number, (end: EndedEvent) => void>();
  const exited = Promise.withResolvers<string>();
  const running: RunningProgram = openRunners().start(
    {
      name: 'test',
      program: runnerProgram,
      data: new Uint8Array(0),
      limits: { memoryBytesMax: 256 * 2 ** 20, lifetimeMsMax: 120_000, network: false },
    },
    {
      message: (body) => {
        const event = runnerEventCodec.decode(body);
        if (event.kind === 'ended') waiting.get(event.runId)?.(event);
      },
      exited: exited.resolve,
    },
  );
  t.after(async () => {
    running.kill();
    await exited.promise;
  });
  let runs = 0;
  return async (name: keyof typeof known, changed: Partial<UnitSpec> = {}): Promise<EndedEvent> => {
    runs += 1;
    const { promise, resolve } = Promise.withResolvers<EndedEvent>();
    waiting.set(runs, resolve);
    const spec = encodeUnitSpec(unitSpecFor(known[name], changed, deriveFacts(known[name])));
    running.send(
      runnerCommandCodec.encode({
        kind: 'run',
        runId: runs,
        spec,
        code: runs === 1 ? code : undefined,
        attempt: 1,
        fence: 7n,
      }),
    );
    const early = exited.promise.then((why) => assert.fail(`the runner ended: ${why}`));
    return Promise.race([promise, early]);
  };
}

const outputOf = ({ output }: EndedEvent): unknown => JSON.parse(new TextDecoder().decode(output));

describe('a runner process', { timeout: 120_000 }, () => {
  it('runs the items and users of a bundle, and reports errors with the line of the author', async (t) => {
    const run = await realRunner(t);
    const sum = await run('sum');
    assert.deepEqual([sum.outcome, sum.completed, sum.failed], ['completed', 3, 1]);
    assert.deepEqual(outputOf(sum), [2, 4, null, 8]);
    const [sample] = decodeSummary(sum.summary ?? new Uint8Array()).errorSamples.values();
    assert.deepEqual([sample?.step, sample?.text, sample?.count], ['each', 'PRECONDITION: three is refused', 1]);
    assert.match(sample?.place ?? '', /^jobs\.ts:12:\d+$/);
    const load = await run('load', { env: new Map([['BASE', 'abc']]) });
    assert.deepEqual([load.outcome, load.completed, load.failed], ['completed', 9, 0]);
    assert.deepEqual(outputOf(load), { base: 'abc' });
  });

  it('has no rights, and survives uncaught errors and rejections', async (t) => {
    const run = await realRunner(t);
    assert.deepEqual(outputOf(await run('rights')), [
      ['read ERR_ACCESS_DENIED', 'spawn ERR_ACCESS_DENIED', 'connect FORBIDDEN', '0'],
    ]);
    assert.equal((await run('late')).outcome, 'completed');
    const after = await run('load', { env: new Map([['BASE', 'abc']]) });
    assert.deepEqual([after.outcome, after.completed], ['completed', 9]);
  });
});
