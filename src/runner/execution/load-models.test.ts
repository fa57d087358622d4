import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startTestUnit } from '../../../test/support/runner/unit-harness.ts';
import { workflow } from '../definition/workflow.ts';

describe('virtual users', () => {
  it('start the next iteration when the last has ended, until the duration is over', async () => {
    const { unit, clock, ended } = startTestUnit(
      workflow('loop', { vus: 3, duration: 1_000, steps: { wait: (ctx) => ctx.sleep(100) } }),
    );
    assert.equal((await ended()).outcome, 'completed');
    const { summary } = unit.run;
    assert.equal(summary.iterations, 30);
    assert.equal(clock.nowMs(), 1_000);
    assert.equal(summary.step('wait').durations.count, 30);
    assert.equal(summary.iterationTimes?.maxUs, 100_000);
  });

  it('share the number of iterations', async () => {
    const seen = new Set<string>();
    const shared = workflow('shared', {
      vus: 4,
      iterations: 10,
      steps: {
        one: async (ctx) => {
          seen.add(ctx.idempotencyKey);
          await ctx.sleep(10);
        },
      },
    });
    const { unit, ended } = startTestUnit(shared, { users: { from: 4, count: 4, list: undefined }, iterations: 7 });
    await ended();
    assert.equal(unit.run.summary.iterations, 7);
    assert.equal(seen.size, 7);
    assert.ok(seen.has('j1/0/4/0') && seen.has('j1/0/6/1'), [...seen].join(' '));
  });

  it('run the steps in order, each with the results of earlier steps', async () => {
    const order: string[] = [];
    const chain = workflow('chain', {
      iterations: 2,
      steps: {
        a: async (ctx) => {
          order.push(`a${ctx.iteration}`);
          await ctx.sleep(5);
          return ctx.iteration + 1;
        },
        b: (ctx) => {
          order.push(`b${ctx.results.a}`);
          return ctx.results.a * 10;
        },
        c: { run: (ctx) => void order.push(`c${ctx.results.b}`), think: '1s' },
      },
    });
    const { unit, clock, ended } = startTestUnit(chain);
    await ended();
    assert.deepEqual(order, ['a0', 'b1', 'c10', 'a1', 'b2', 'c20']);
    assert.equal(clock.nowMs(), 2_010);
    assert.equal(unit.run.summary.iterationTimes?.maxUs, 5_000, 'think time does not count');
  });

  it('run the steps of a flow with typed results of earlier steps', async () => {
    const seen: string[] = [];
    const flowing = workflow('flowing', {
      iterations: 1,
      steps: (flow) =>
        flow
          .step('login', async () => ({ token: 'abc' }))
          .step('buy', (ctx) => ctx.results.login.token.length, { think: '2s' })
          .step('pay', (ctx) => void seen.push(`${ctx.results.buy} ${ctx.results.login.token}`)),
    });
    const { unit, clock, ended } = startTestUnit(flowing);
    await ended();
    assert.deepEqual(seen, ['3 abc']);
    assert.equal(clock.nowMs(), 2_000);
    assert.deepEqual([...unit.run.summary.steps.keys()], ['login', 'buy', 'pay']);
  });

  it('skip the steps after a step that throws', async () => {
    const { unit, ended } = startTestUnit(
      workflow('broken', {
        iterations: 3,
        steps: {
          a: () => 1,
          b: () => {
            throw new Error('b');
          },
          c: () => 1,
        },
      }),
    );
    await ended();
    const { summary } = unit.run;
    assert.deepEqual([summary.iterations, summary.failed, summary.errors], [3, 3, 3]);
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => [summary.step(name).durations.count, summary.step(name).failed]),
      [
        [3, 0],
        [3, 3],
        [0, 0],
      ],
    );
  });

  it('run independent steps of a dependency graph concurrently', async () => {
    const ends: string[] = [];
    const step = (name: string, ms: number) => async (ctx: { sleep(ms: number): Promise<void> }) => {
      await ctx.sleep(ms);
      ends.push(name);
    };
    const { unit, clock, ended } = startTestUnit(
      workflow('graph', {
        iterations: 1,
        steps: {
          last: { after: ['left', 'right'], run: step('last', 1) },
          left: { after: ['root'], run: step('left', 30) },
          right: { after: ['root'], run: step('right', 20) },
          root: step('root', 10),
          lost: { after: ['thrower'], run: step('lost', 1) },
          thrower: () => {
            throw new Error('no');
          },
        },
      }),
    );
    await ended();
    assert.deepEqual(ends, ['root', 'right', 'left', 'last']);
    assert.equal(clock.nowMs(), 41);
    assert.deepEqual([unit.run.summary.iterations, unit.run.summary.failed], [1, 1]);
  });

  it('think between iterations, but not beyond the end', async () => {
    const { unit, clock, ended } = startTestUnit(
      workflow('thinking', { duration: '10s', think: ['3s', '4s'], steps: { one: () => undefined } }),
    );
    await ended();
    assert.equal(unit.run.summary.iterations, 3);
    assert.equal(clock.nowMs(), 10_000);
  });

  it('follow stages up and down, divided among units', async () => {
    const during = async (unit: number, units: number): Promise<readonly number[]> => {
      let now = 0;
      const ramp = workflow('ramp', {
        stages: [
          { duration: 10_000, target: 10 },
          { duration: 5_000, target: 10 },
          { duration: 10_000, target: 0 },
        ],
        steps: {
          one: async (ctx) => {
            now += 1;
            await ctx.sleep(100);
            now -= 1;
          },
        },
      });
      const share = {
        phase: 'work',
        unit,
        units,
        users: { from: unit * 5, count: 10 / units, list: undefined },
      } as const;
      const { clock, unit: tested } = startTestUnit(ramp, share);
      const ended = tested.execute();
      const seen: number[] = [];
      for (const atMs of [1_050, 5_050, 12_050, 20_450, 24_950]) {
        await clock.until(atMs);
        seen.push(now);
      }
      await clock.during(ended);
      return seen;
    };
    assert.deepEqual(await during(0, 1), [1, 5, 10, 5, 0]);
    assert.deepEqual(await during(0, 2), [0, 2, 5, 2, 0]);
    assert.deepEqual(await during(1, 2), [1, 3, 5, 3, 0]);
  });

  it('are aborted when they do not end in time', async () => {
    let isAborted = false;
    const hanging = workflow('hanging', {
      vus: 2,
      duration: '1s',
      steps: {
        one: async (ctx) => {
          ctx.signal.addEventListener('abort', () => (isAborted = true));
          await ctx.sleep(ctx.vu === 0 ? 100 : 3_600_000);
        },
      },
    });
    const { unit, clock, ended } = startTestUnit(hanging);
    assert.equal((await ended()).outcome, 'completed');
    assert.equal(clock.nowMs(), 11_000);
    assert.ok(isAborted);
    assert.deepEqual([unit.run.summary.iterations, unit.run.summary.interrupted], [10, 1]);
    assert.equal(unit.isTainted, false);
  });

  it('are abandoned when they ignore the abort signal', async () => {
    const stubborn = workflow('stubborn', { duration: '1s', steps: { one: () => new Promise(() => undefined) } });
    const { unit, ended } = startTestUnit(stubborn);
    assert.equal((await ended()).outcome, 'completed');
    assert.equal(unit.isTainted, true);
  });

  it('fail a step by its checks, or without checks by its requests', async () => {
    const judged = workflow('judged', {
      iterations: 1,
      steps: {
        fine: (ctx) => ctx.http.get('/200'),
        gone: (ctx) => ctx.http.get('/404'),
        expected: async (ctx) => ctx.check(await ctx.http.get('/404'), (r) => r.status === 404),
        wrong: async (ctx) => ctx.check(await ctx.http.get('/200'), (r) => r.status === 201),
        last: (ctx) => ctx.http.get('/0'),
      },
    });
    const { unit, ended } = startTestUnit(judged);
    await ended();
    const { summary } = unit.run;
    const failed = [...summary.steps].filter(([, counts]) => counts.failed > 0).map(([name]) => name);
    assert.deepEqual(failed, ['gone', 'wrong', 'last']);
    assert.deepEqual([summary.requests, summary.requestsFailed], [5, 3]);
    assert.deepEqual([summary.bytesIn, summary.bytesOut, summary.http?.count], [1_000, 500, 5]);
    assert.deepEqual([...summary.checks.keys()], ['expected', 'wrong']);
  });
});

describe('scheduled arrivals', () => {
  it('come at their rate, whatever responses take', async () => {
    const open = workflow('open', {
      rate: 10,
      duration: '1s',
      vus: 100,
      steps: { slow: (ctx) => ctx.sleep(5_000) },
    });
    const { unit, ended } = startTestUnit(open);
    await ended();
    assert.equal(unit.run.summary.iterations, 10);
    assert.equal(unit.run.summary.dropped, 0);
    assert.equal(unit.run.summary.saturated, false);
  });

  it('are dropped and counted when no user is free', async () => {
    const open = workflow('open', { rate: 10, duration: '10s', vus: 2, steps: { slow: (ctx) => ctx.sleep(1_000) } });
    const { unit, ended } = startTestUnit(open);
    await ended();
    const { summary } = unit.run;
    assert.equal(summary.iterations + summary.dropped, 100);
    assert.equal(summary.iterations, 20);
    assert.equal(summary.saturated, true);
  });

  it('follow stages, divided among units, each arrival once', async () => {
    const arrivalTimes = async (unit: number, units: number): Promise<readonly number[]> => {
      const times: number[] = [];
      const { clock, ended } = startTestUnit(
        workflow('ramp', {
          rate: 0,
          vus: 1_000,
          stages: [
            { duration: '10s', target: 10 },
            { duration: '10s', target: 10 },
            { duration: 0, target: 2 },
            { duration: '5s', target: 2 },
          ],
          steps: { one: () => void times.push(Math.round(clock.nowMs())) },
        }),
        { phase: 'work', unit, units },
      );
      await ended();
      return times;
    };
    const all = await arrivalTimes(0, 1);
    assert.equal(all.filter((ms) => ms < 10_000).length, 50);
    assert.equal(all.filter((ms) => ms >= 10_000 && ms < 20_000).length, 100);
    assert.equal(all.filter((ms) => ms >= 20_000).length, 10);
    assert.equal(all[2], 2_000, 'half of t squared');
    const parts = [await arrivalTimes(0, 3), await arrivalTimes(1, 3), await arrivalTimes(2, 3)];
    assert.deepEqual(
      parts.flat().toSorted((a, b) => a - b),
      all,
    );
  });

  it('end after the number of iterations', async () => {
    const { unit, ended } = startTestUnit(
      workflow('few', { rate: 100, iterations: 7, steps: { one: () => undefined } }),
    );
    await ended();
    assert.equal(unit.run.summary.iterations, 7);
  });

  it('end when the unit is stopped', async () => {
    const { unit, clock } = startTestUnit(
      workflow('long', { rate: 1, duration: '1h', steps: { one: () => undefined } }),
    );
    const ended = unit.execute();
    await clock.until(10_500);
    unit.stop('enough');
    assert.equal((await clock.during(ended)).outcome, 'cancelled');
    assert.equal(unit.run.summary.iterations, 11);
  });
});
