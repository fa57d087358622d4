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
  const scene = new HostingHarness(definition, limits);
  scene.open();
  return { scene, fired, firedAtMs, errors };
}

describe('a timer', () => {
  it('runs once, when it is due, with its arguments, and is gone', () => {
    const { scene, fired } = timed();
    scene.call('set', ['t', 1_000, 'x', { y: 1 }]);
    scene.run(999);
    assert.deepEqual(fired, []);
    assert.equal(scene.disk(0).has('tt'), true);
    scene.run(1);
    assert.deepEqual(fired, [[1_000, 'x', { y: 1 }]]);
    scene.run(100_000);
    assert.equal(fired.length, 1);
    assert.equal(scene.disk(0).has('tt'), false);
    assert.equal(valueOf(scene.call('fired')), 1);
  });

  it('is replaced by one of the same name, and can be cancelled', () => {
    const { scene, fired } = timed();
    scene.call('set', ['t', 1_000, 'first']);
    scene.call('set', ['t', 2_000, 'second']);
    scene.call('set', ['u', 1_500, 'never']);
    scene.call('cancel', ['u']);
    scene.run(5_000);
    assert.deepEqual(fired, [[2_000, 'second']]);
  });

  it('may set itself anew', () => {
    const { scene, fired } = timed();
    scene.call('setAgain');
    scene.run(1_000);
    assert.equal(fired.length, 4);
  });

  it('of a call that failed does not exist', () => {
    const { scene, fired } = timed();
    scene.call('setAndFail');
    scene.run(1_000);
    assert.deepEqual(fired, []);
    assert.equal(codeOf(scene.call('sneak')), 'CALL_FAILED');
  });

  it('survives a move, and is run late rather than never', () => {
    const { scene, fired, firedAtMs } = timed();
    scene.call('set', ['t', 1_000]);
    scene.call('set', ['u', 500_000]);
    scene.run();
    scene.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening', move: undefined });
    scene.holdLogs = true;
    scene.run(5_000);
    assert.deepEqual(fired, []);
    scene.holdLogs = false;
    for (const open of scene.heldLogs) open();
    scene.run();
    assert.deepEqual(fired, [[5_000]]);
    scene.run(600_000);
    assert.deepEqual(firedAtMs, [5_000, 500_000]);
  });

  it('whose removal is not committed when the container moves runs again, and its effect is there once', () => {
    const { scene, fired } = timed();
    scene.call('set', ['t', 1_000]);
    scene.run();
    scene.commitsEnd = false;
    scene.run(1_000);
    assert.equal(fired.length, 1);
    scene.commitsEnd = true;
    scene.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening' });
    scene.run();
    scene.run(10);
    assert.equal(fired.length, 2);
    assert.equal(valueOf(scene.call('fired')), 1);
  });

  it('whose method throws is tried again, later each time, and dropped in the end', () => {
    const { scene, fired, errors } = timed({ timerAttemptsMax: 3, timerRetryMs: 1_000 });
    errors.push(new Error('a'));
    scene.call('set', ['t', 0]);
    scene.run(999);
    assert.equal(fired.length, 1);
    scene.run(1);
    assert.equal(fired.length, 2);
    assert.equal(valueOf(scene.call('fired')), 1, 'the first time changed nothing');
    errors.push(new Error('b'), new Error('c'), new Error('d'));
    scene.call('set', ['t', 0]);
    scene.run(20_000);
    assert.equal(fired.length, 5);
    assert.equal(scene.disk(0).has('tt'), false);
    assert.ok(scene.lines.some(({ level, message }) => level === 'error' && message.includes('dropped')));
  });

  it('that names no method is dropped as well; others do not wait for it', () => {
    const { scene, fired } = timed();
    scene.call('setWrong', [10]);
    scene.call('set', ['t', 20]);
    scene.run(100);
    assert.equal(fired.length, 1);
    scene.run(400_000);
    assert.equal(scene.disk(0).has('twrong'), false);
  });

  it('waits for the lease', () => {
    const { scene, fired } = timed();
    scene.call('set', ['t', 1_000]);
    scene.run();
    scene.lease(false);
    scene.run(10_000);
    assert.deepEqual(fired, []);
    scene.lease(true);
    scene.run();
    assert.equal(fired.length, 1);
  });

  it('has bounds', () => {
    const { scene } = timed({ timersMax: 2, timerArgsBytesMax: 100 });
    for (const name of ['a', 'b', 'a']) {
      const set = scene.call('set', [name, 1_000]);
      scene.run();
      assert.equal(codeOf(set), 'ok');
    }
    for (const [args, code] of [
      [['c', 1_000], 'CAPACITY'],
      [['a', 1_000, 'x'.repeat(200)], 'TOO_LARGE'],
      [['', 1], 'BAD_ARGUMENT'],
      [['a', Number.NaN], 'BAD_ARGUMENT'],
    ] as const) {
      const set = scene.call('set', args);
      scene.run();
      assert.equal(codeOf(set), code);
    }
  });

  it('by the hundred are all run', () => {
    const { scene, fired } = timed();
    for (let n = 0; n < 350; n++) scene.call('set', [`t${n}`, n % 7]);
    scene.run(100);
    assert.equal(fired.length, 350);
  });
});
