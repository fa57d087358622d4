/**
 * One counter under everything at once: calls and calls sent again, commits that end late or never, a lease that comes
 * and goes, new fences, moves, crashes after which an unacknowledged commit may or may not be there. In the end every
 * call has been applied exactly once, and whenever one was answered the answer was the same.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { fenceOf } from '../../base/fence.ts';
import { Random } from '../../base/random.ts';
import { module } from '../module.ts';
import {
  type PendingCall,
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
  readonly scene: HostingHarness;
  readonly gates: (() => void)[] = [];
  readonly asked: { readonly counter: number; readonly call: PendingCall }[] = [];
  readonly answers = new Map<number, number>();
  #counter = 0;
  #fence = 1;

  constructor(seed: string) {
    this.random = new Random(seed);
    this.scene = new HostingHarness(
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
    this.asked.push({ counter, call: this.scene.call('add', [], { counter, lowestPending, remainingMs: 5_000 }) });
  }

  step(): void {
    const { random, scene } = this;
    const choice = random.below(100);
    if (choice < 35) this.send(++this.#counter);
    else if (choice < 45 && this.#counter > 0) this.send(Math.max(1, this.#counter - random.below(10)));
    else if (choice < 60) scene.log?.end();
    else if (choice < 70) this.gates.splice(random.below(this.gates.length + 1), 1)[0]?.();
    else if (choice < 75) scene.lease(random.chance(0.5));
    else if (choice < 78) this.asked.at(-1)?.call.cancel();
    else if (choice < 82) this.#fenceOff();
    else if (choice < 84) scene.change({ move: { to: other, cause: 'admin', step: 'handing' } });
    else if (choice < 86) scene.log?.lost('the disk failed');
    else if (choice < 95) scene.run(random.below(50));
    else scene.run(random.below(3_000));
  }

  /** Another opening; what was on its way to the disk got there as far as it got. */
  #fenceOff(): void {
    const { random, scene } = this;
    if (random.chance(0.5)) scene.log?.applyUnacknowledged(random.below(scene.log.commits.length + 1));
    this.#fence += 1;
    scene.change({ fence: fenceOf(1, this.#fence), opening: 'recover', phase: 'opening', move: undefined });
  }

  /** Whoever was answered was answered once, and each call always in the same way. */
  check(): void {
    for (const { counter, call } of this.asked) {
      assert.ok(call.times <= 1);
      if (codeOf(call) !== 'ok') continue;
      const value = Number(valueOf(call));
      assert.equal(this.answers.get(counter) ?? value, value, `call ${counter} has two answers`);
      this.answers.set(counter, value);
    }
  }

  async heal(): Promise<void> {
    const { scene, gates } = this;
    scene.lease(true);
    scene.commitsEnd = true;
    this.#fenceOff();
    for (let round = 0; round < 100 && this.answers.size < this.#counter; round++) {
      for (const open of gates.splice(0)) open();
      for (let counter = 1; counter <= this.#counter; counter++) if (!this.answers.has(counter)) this.send(counter);
      scene.run(1_000);
      await settle();
      this.check();
      for (const { counter, call } of this.asked) {
        // Below what later calls have declared over nothing is answered any more.
        if (codeOf(call) === 'PRECONDITION') this.answers.set(counter, -1);
      }
    }
    assert.equal(this.answers.size, this.#counter, 'every call has ended');
  }
}

it(`${seeds} seeds: every call has its effect once, and one answer`, async () => {
  let [answered, calls] = [0, 0];
  for (let seed = 0; seed < seeds; seed++) {
    const run = new Run(`hosting ${seed}`);
    const { scene } = run;
    scene.open();
    scene.commitsEnd = false;
    for (let n = 0; n < steps; n++) {
      run.step();
      if (run.random.chance(0.3)) await settle();
      run.check();
    }
    await run.heal();
    scene.run(10_000);
    const given = [...run.answers.values()].filter((value) => value > 0);
    const n = Number(valueOf(scene.call('read')));
    assert.equal(new Set(given).size, given.length, `seed ${seed}: two calls got the same number`);
    assert.ok(Math.max(0, ...given) <= n, `seed ${seed}: an acknowledged call is lost`);
    assert.ok(n <= run.answers.size, `seed ${seed}: a call had its effect twice`);
    assert.deepEqual(scene.halts, []);
    answered += given.length;
    calls += run.answers.size;
  }
  assert.ok(answered > calls * 0.9 && calls > seeds * 20, `${answered} of ${calls} calls were answered`);
});
