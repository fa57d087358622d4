import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Done, failure, success } from '../errors.ts';
import { Loop, type Machine, type Persist, type PersistFailed, type Schedule, type CancelTimer } from './loop.ts';
import type { Clock, Store, StoreWrite } from '../ports.ts';

type Print = { readonly kind: 'print'; readonly text: string; readonly immediate?: boolean };
type Step = { readonly kind: 'do'; readonly effects: readonly (Print | Persist | Schedule<string> | CancelTimer)[] };
type LoopInput = Step | { readonly kind: 'expired'; readonly timer: string } | PersistFailed;

const print = (text: string): Print => ({ kind: 'print', text });
const persist = (key: string): Persist => ({ kind: 'persist', writes: [{ key, value: null }] });
const act = (...effects: Step['effects']): Step => ({ kind: 'do', effects });

/** A machine that returns the effects of its input, a store whose writes the test ends, and a trace. */
function bench(options: { queuedEffectsMax?: number; onPrint?: (text: string) => void } = {}) {
  const trace: string[] = [];
  const writes: Done<void>[] = [];
  const timers: { atMs: number; run: () => void }[] = [];
  let nowMs = 0;
  const machine: Machine<LoopInput, Print | Persist | Schedule<string> | CancelTimer> = {
    step: (_nowMs, input) => {
      if (input.kind === 'do') return input.effects;
      trace.push(input.kind === 'expired' ? `expired ${input.timer}` : `persistFailed ${input.error.code}`);
      return [];
    },
  };
  const clock: Clock = {
    nowMs: () => nowMs,
    wallMs: () => 0,
    schedule: (delayMs, run) => {
      const timer = { atMs: nowMs + delayMs, run };
      timers.push(timer);
      return () => void timers.splice(timers.indexOf(timer), 1);
    },
  };
  const store: Store = {
    write: (batch: readonly StoreWrite[], done) => {
      trace.push(`write ${batch.map((write) => write.key).join('+')}`);
      writes.push(done);
    },
    read: () => {},
    close: () => {},
  };
  const loop = new Loop<Step, Print, string>(machine, {
    clock,
    store,
    perform: (effect) => {
      trace.push(effect.text);
      options.onPrint?.(effect.text);
    },
    onHalt: (error) => trace.push(`halted: ${error instanceof Error ? error.message : ''}`),
    ...(options.queuedEffectsMax === undefined ? {} : { queuedEffectsMax: options.queuedEffectsMax }),
  });
  const endWrite = (outcome: Parameters<Done<void>>[0] = success(undefined)) => writes.shift()?.(outcome);
  const advance = (toMs: number) => {
    nowMs = toMs;
    for (const timer of timers.splice(0)) if (timer.atMs <= nowMs) timer.run();
  };
  return { loop, trace, endWrite, advance };
}

describe('loop', () => {
  it('performs effects before a persist at once, and those after it when it is durable', () => {
    const { loop, trace, endWrite } = bench();
    loop.feed(act(print('before'), persist('vote'), print('after')));
    assert.deepEqual(trace, ['before', 'write vote']);
    endWrite();
    assert.deepEqual(trace, ['before', 'write vote', 'after']);
  });

  it('steps inputs during a write and combines their persists in the next one', () => {
    const { loop, trace, endWrite } = bench();
    loop.feed(act(persist('a'), print('a is durable')));
    loop.feed(act(persist('b'), print('b is durable')));
    loop.feed(act(print('no persist of its own')));
    loop.feed(act(persist('c'), print('c is durable')));
    assert.deepEqual(trace, ['write a']);
    endWrite();
    assert.deepEqual(trace, ['write a', 'a is durable', 'write b+c']);
    endWrite();
    assert.deepEqual(trace.slice(3), ['b is durable', 'no persist of its own', 'c is durable']);
  });

  it('performs an immediate effect during a write, after the other effects of its step are queued', () => {
    const world = bench({
      onPrint: (text) => {
        if (text === 'heartbeat') world.loop.feed(act(print('because of it')));
      },
    });
    world.loop.feed(act(persist('a')));
    world.loop.feed(act({ ...print('heartbeat'), immediate: true }, print('waits')));
    assert.deepEqual(world.trace, ['write a', 'heartbeat']);
    world.endWrite();
    assert.deepEqual(world.trace.slice(2), ['waits', 'because of it']);
  });

  it('keeps the order when an effect feeds the loop again', () => {
    const world = bench({
      onPrint: (text) => {
        if (text === 'first') world.loop.feed(act(print('third')));
      },
    });
    world.loop.feed(act(print('first'), print('second')));
    assert.deepEqual(world.trace, ['first', 'second', 'third']);
  });

  it('completes an effect before the immediate effects that it causes', () => {
    const world = bench({
      onPrint: (text) => {
        if (text !== 'entry 1' && text !== 'heartbeat') return;
        world.loop.feed(act({ ...print(`immediate after ${text}`), immediate: true }, print(`queued by ${text}`)));
        world.trace.push(`${text} is done`);
      },
    });
    world.loop.feed(act(print('entry 1'), print('entry 2')));
    assert.deepEqual(world.trace.splice(0), [
      ...['entry 1', 'entry 1 is done', 'immediate after entry 1', 'entry 2', 'queued by entry 1'],
    ]);
    world.loop.feed(act({ ...print('heartbeat'), immediate: true }));
    assert.deepEqual(world.trace, [
      'heartbeat',
      'heartbeat is done',
      'immediate after heartbeat',
      'queued by heartbeat',
    ]);
  });

  it('reports a failed write to the machine, keeps all effects and retries', () => {
    const { loop, trace, endWrite, advance } = bench();
    loop.feed(act(persist('a'), print('a is durable')));
    endWrite(failure('STORE_FULL'));
    loop.feed(act(persist('b'), print('b is durable')));
    assert.deepEqual(trace, ['write a', 'persistFailed STORE_FULL']);
    advance(250);
    endWrite();
    assert.deepEqual(trace.slice(2), ['write a+b', 'a is durable', 'b is durable']);
  });

  it('turns an expired timer into an input, also during a write', () => {
    const { loop, trace, advance } = bench();
    loop.feed(act(persist('a'), { kind: 'schedule', atMs: 10, timer: 'probe' }));
    advance(10);
    assert.deepEqual(trace, ['write a', 'expired probe']);
  });

  it('cancels a timer by its key, also one that was set again', () => {
    const { loop, trace, advance } = bench();
    const timer = (name: string, atMs: number, key: string) => ({ kind: 'schedule', atMs, timer: name, key }) as const;
    const cancel = (key: string) => ({ kind: 'cancelTimer', key }) as const;
    loop.feed(act(timer('a', 10, 'k'), timer('b', 10, 'l'), cancel('k'), cancel('never set')));
    advance(10);
    assert.deepEqual(trace, ['expired b']);
    loop.feed(act(cancel('l'), timer('c', 20, 'l'), timer('d', 30, 'm')));
    loop.feed(act(cancel('l')));
    advance(30);
    assert.deepEqual(trace, ['expired b', 'expired d']);
  });

  it('halts once and for good when too many effects wait for the disk', () => {
    const { loop, trace, endWrite } = bench({ queuedEffectsMax: 2 });
    loop.feed(act(persist('a'), print('one')));
    loop.feed(act(print('two')));
    endWrite();
    loop.feed(act(print('three')));
    assert.deepEqual(trace, ['write a', 'halted: more than 2 effects wait for the disk']);
  });

  it('performs nothing after stop, queued effects included', () => {
    const { loop, trace, endWrite, advance } = bench();
    loop.feed(act(persist('a'), print('a is durable'), { kind: 'schedule', atMs: 10, timer: 'late' }));
    loop.stop();
    endWrite();
    advance(10);
    loop.feed(act(print('late')));
    assert.deepEqual(trace, ['write a']);
  });
});
