import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { fenceOf } from '../../base/fence.ts';
import { type Context, module } from '../module.ts';
import { codeOf, HostingHarness, valueOf } from '../../../test/support/containers/hosting-harness.ts';

function timed(limits = {}) {
  const fired: unknown[] = [];
  const firedAtMs: number[] = [];
  const errors: Error[] = [];
  const definition = module('m', {
    methods: {
      set: (ctx, name: string, afterMs: number, ...args: unknown[]) => ctx.timers.set(name, afterMs, 'fire', ...args),
      setAndFail: (ctx) => {
        ctx.timers.set('never', 1, 'fire');
        throw new Error('no');
      },
      cancel: (ctx, name: string) => ctx.timers.cancel(name),
      fire: (ctx: Context, ...args: unknown[]) => {
        const atMs = ctx.now() - 1_700_000_000_000;
        firedAtMs.push(atMs);
        fired.push([atMs, ...args]);
        ctx.state.set('fired', (ctx.state.get<number>('fired') ?? 0) + 1);
        const error = errors.shift();
        if (error !== undefined) throw error;
      },
      again: (ctx) => {
        fired.push('again');
        if (fired.length < 4) ctx.timers.set('again', 10, 'again');
      },
      setAgain: (ctx) => ctx.timers.set('again', 10, 'again'),
      setWrong: (ctx, afterMs: number) => ctx.timers.set('wrong', afterMs, 'nowhere'),
      fired: { readonly: true, run: (ctx) => ctx.state.get('fired') ?? 0 },
      sneak: { readonly: true, run: (ctx) => ctx.timers.set('x', 1, 'fire') },
    },
  });
  const harness = new HostingHarness(definition, limits);
  harness.open();
  return { harness, fired, firedAtMs, errors };
}

describe('a timer', () => {
  it('runs once, when it is due, with its arguments, and is gone', () => {
    const { harness, fired } = timed();
    harness.call('set', ['t', 1_000, 'x', { y: 1 }]);
    harness.run(999);
    assert.deepEqual(fired, []);
    assert.equal(harness.disk(0).has('tt'), true);
    harness.run(1);
    assert.deepEqual(fired, [[1_000, 'x', { y: 1 }]]);
    harness.run(100_000);
    assert.equal(fired.length, 1);
    assert.equal(harness.disk(0).has('tt'), false);
    assert.equal(valueOf(harness.call('fired')), 1);
  });

  it('is replaced by one of the same name, and can be cancelled', () => {
    const { harness, fired } = timed();
    harness.call('set', ['t', 1_000, 'first']);
    harness.call('set', ['t', 2_000, 'second']);
    harness.call('set', ['u', 1_500, 'never']);
    harness.call('cancel', ['u']);
    harness.run(5_000);
    assert.deepEqual(fired, [[2_000, 'second']]);
  });

  it('may set itself again', () => {
    const { harness, fired } = timed();
    harness.call('setAgain');
    harness.run(1_000);
    assert.equal(fired.length, 4);
  });

  it('of a call that failed does not exist', () => {
    const { harness, fired } = timed();
    harness.call('setAndFail');
    harness.run(1_000);
    assert.deepEqual(fired, []);
    assert.equal(codeOf(harness.call('sneak')), 'CALL_FAILED');
  });

  it('survives a move, and runs late rather than never', () => {
    const { harness, fired, firedAtMs } = timed();
    harness.call('set', ['t', 1_000]);
    harness.call('set', ['u', 500_000]);
    harness.run();
    harness.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening', move: undefined });
    harness.delayLogs = true;
    harness.run(5_000);
    assert.deepEqual(fired, []);
    harness.delayLogs = false;
    for (const open of harness.delayedLogs) open();
    harness.run();
    assert.deepEqual(fired, [[5_000]]);
    harness.run(600_000);
    assert.deepEqual(firedAtMs, [5_000, 500_000]);
  });

  it('runs again if its removal was not committed when the container moved, and takes effect once', () => {
    const { harness, fired } = timed();
    harness.call('set', ['t', 1_000]);
    harness.run();
    harness.commitsEnd = false;
    harness.run(1_000);
    assert.equal(fired.length, 1);
    harness.commitsEnd = true;
    harness.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening' });
    harness.run();
    harness.run(10);
    assert.equal(fired.length, 2);
    assert.equal(valueOf(harness.call('fired')), 1);
  });

  it('whose method throws is retried with backoff and then dropped', () => {
    const { harness, fired, errors } = timed({ timerAttemptsMax: 3, timerRetryMs: 1_000 });
    errors.push(new Error('a'));
    harness.call('set', ['t', 0]);
    harness.run(999);
    assert.equal(fired.length, 1);
    harness.run(1);
    assert.equal(fired.length, 2);
    assert.equal(valueOf(harness.call('fired')), 1, 'the failed run changed nothing');
    errors.push(new Error('b'), new Error('c'), new Error('d'));
    harness.call('set', ['t', 0]);
    harness.run(20_000);
    assert.equal(fired.length, 5);
    assert.equal(harness.disk(0).has('tt'), false);
    assert.ok(harness.lines.some(({ level, message }) => level === 'error' && message.includes('dropped')));
  });

  it('with an unknown method is dropped too, and delays no other timer', () => {
    const { harness, fired } = timed();
    harness.call('setWrong', [10]);
    harness.call('set', ['t', 20]);
    harness.run(100);
    assert.equal(fired.length, 1);
    harness.run(400_000);
    assert.equal(harness.disk(0).has('twrong'), false);
  });

  it('waits for the lease', () => {
    const { harness, fired } = timed();
    harness.call('set', ['t', 1_000]);
    harness.run();
    harness.lease(false);
    harness.run(10_000);
    assert.deepEqual(fired, []);
    harness.lease(true);
    harness.run();
    assert.equal(fired.length, 1);
  });

  it('has bounds', () => {
    const { harness } = timed({ timersMax: 2, timerArgsBytesMax: 100 });
    for (const name of ['a', 'b', 'a']) {
      const set = harness.call('set', [name, 1_000]);
      harness.run();
      assert.equal(codeOf(set), 'ok');
    }
    for (const [args, code] of [
      [['c', 1_000], 'CAPACITY'],
      [['a', 1_000, 'x'.repeat(200)], 'TOO_LARGE'],
      [['', 1], 'BAD_ARGUMENT'],
      [['a', Number.NaN], 'BAD_ARGUMENT'],
    ] as const) {
      const set = harness.call('set', args);
      harness.run();
      assert.equal(codeOf(set), code);
    }
  });

  it('runs even among hundreds that are due at once', () => {
    const { harness, fired } = timed();
    for (let n = 0; n < 350; n++) harness.call('set', [`t${n}`, n % 7]);
    harness.run(100);
    assert.equal(fired.length, 350);
  });
});
