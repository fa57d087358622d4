/**
 * One counter under random faults: retried calls, commits that end late or never, a lease that comes and goes, new
 * fences, moves, crashes after which an unacknowledged commit may or may not be on disk. At the end every call has
 * taken effect exactly once, and all replies to it were the same.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { fenceOf } from '../../base/fence.ts';
import { Random } from '../../base/random.ts';
import { module } from '../module.ts';
import {
  type StartedCall,
  codeOf,
  other,
  HostingHarness,
  settle,
  valueOf,
} from '../../../test/support/containers/hosting-harness.ts';

const seeds = 150;
const steps = 120;

class Run {
  readonly random: Random;
  readonly harness: HostingHarness;
  readonly gates: (() => void)[] = [];
  readonly started: { readonly counter: number; readonly call: StartedCall }[] = [];
  readonly results = new Map<number, number>();
  #counter = 0;
  #fence = 1;

  constructor(seed: string) {
    this.random = new Random(seed);
    this.harness = new HostingHarness(
      module('m', {
        methods: {
          add: (ctx) => {
            const n = (ctx.state.get<number>('n') ?? 0) + 1;
            ctx.state.set('n', n);
            return this.random.chance(0.7) ? n : new Promise((resolve) => this.gates.push(() => resolve(n)));
          },
          read: { readonly: true, run: (ctx) => ctx.state.get<number>('n') ?? 0 },
        },
      }),
    );
  }

  send(counter: number): void {
    const lowestPending = Math.max(0, counter - 30);
    this.started.push({ counter, call: this.harness.call('add', [], { counter, lowestPending, remainingMs: 5_000 }) });
  }

  step(): void {
    const { random, harness } = this;
    const choice = random.below(100);
    if (choice < 35) this.send(++this.#counter);
    else if (choice < 45 && this.#counter > 0) this.send(Math.max(1, this.#counter - random.below(10)));
    else if (choice < 60) harness.log?.end();
    else if (choice < 70) this.gates.splice(random.below(this.gates.length + 1), 1)[0]?.();
    else if (choice < 75) harness.lease(random.chance(0.5));
    else if (choice < 78) this.started.at(-1)?.call.cancel();
    else if (choice < 82) this.#fenceOff();
    else if (choice < 84) harness.change({ move: { to: other, cause: 'admin', step: 'handing' } });
    else if (choice < 86) harness.log?.lost('the disk failed');
    else if (choice < 95) harness.run(random.below(50));
    else harness.run(random.below(3_000));
  }

  /** Opens again; some of the pending commits reach the disk. */
  #fenceOff(): void {
    const { random, harness } = this;
    if (random.chance(0.5)) harness.log?.applyUnacknowledged(random.below(harness.log.commits.length + 1));
    this.#fence += 1;
    harness.change({ fence: fenceOf(1, this.#fence), opening: 'recover', phase: 'opening', move: undefined });
  }

  /** Each request got one reply, and all replies to a call are the same. */
  check(): void {
    for (const { counter, call } of this.started) {
      assert.ok(call.times <= 1);
      if (codeOf(call) !== 'ok') continue;
      const value = Number(valueOf(call));
      assert.equal(this.results.get(counter) ?? value, value, `call ${counter} has two results`);
      this.results.set(counter, value);
    }
  }

  async heal(): Promise<void> {
    const { harness, gates } = this;
    harness.lease(true);
    harness.commitsEnd = true;
    this.#fenceOff();
    for (let round = 0; round < 100 && this.results.size < this.#counter; round++) {
      for (const open of gates.splice(0)) open();
      for (let counter = 1; counter <= this.#counter; counter++) if (!this.results.has(counter)) this.send(counter);
      harness.run(1_000);
      await settle();
      this.check();
      for (const { counter, call } of this.started) {
        // Calls below the lowest pending one of a later call are refused.
        if (codeOf(call) === 'PRECONDITION') this.results.set(counter, -1);
      }
    }
    assert.equal(this.results.size, this.#counter, 'every call has ended');
  }
}

it(`every call takes effect once and has one result, in ${seeds} seeds`, async () => {
  let [replied, calls] = [0, 0];
  for (let seed = 0; seed < seeds; seed++) {
    const run = new Run(`hosting ${seed}`);
    const { harness } = run;
    harness.open();
    harness.commitsEnd = false;
    for (let n = 0; n < steps; n++) {
      run.step();
      if (run.random.chance(0.3)) await settle();
      run.check();
    }
    await run.heal();
    harness.run(10_000);
    const values = [...run.results.values()].filter((value) => value > 0);
    const n = Number(valueOf(harness.call('read')));
    assert.equal(new Set(values).size, values.length, `seed ${seed}: two calls got the same number`);
    assert.ok(Math.max(0, ...values) <= n, `seed ${seed}: an acknowledged call is lost`);
    assert.ok(n <= run.results.size, `seed ${seed}: a call had its effect twice`);
    assert.deepEqual(harness.halts, []);
    replied += values.length;
    calls += run.results.size;
  }
  assert.ok(replied > calls * 0.9 && calls > seeds * 20, `${replied} of ${calls} calls ended with a result`);
});
