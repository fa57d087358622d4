import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Done, failure, success } from '../errors.ts';
import { Loop, type Machine, type Persist, type PersistFailed, type Schedule, type CancelTimer } from './loop.ts';
import type { Clock, Store, StoreWrite } from '../ports.ts';

type Say = { readonly kind: 'say'; readonly text: string; readonly immediate?: boolean };
type Step = { readonly kind: 'do'; readonly effects: readonly (Say | Persist | Schedule<string> | CancelTimer)[] };
type Heard = Step | { readonly kind: 'expired'; readonly timer: string } | PersistFailed;

const say = (text: string): Say => ({ kind: 'say', text });
const persist = (key: string): Persist => ({ kind: 'persist', writes: [{ key, value: null }] });
const act = (...effects: Step['effects']): Step => ({ kind: 'do', effects });

/** A machine that does as it is told, a store whose writes end when the test says so, and a trace of all that happens. */
function bench(options: { heldMax?: number; onSay?: (text: string) => void } = {}) {
  const trace: string[] = [];
  const writes: Done<void>[] = [];
  const timers: { atMs: number; run: () => void }[] = [];
  let nowMs = 0;
  const machine: Machine<Heard, Say | Persist | Schedule<string> | CancelTimer> = {
    step: (_nowMs, input) => {
      if (input.kind === 'do') return input.effects;
      trace.push(input.kind === 'expired' ? `expired ${input.timer}` : `told ${input.error.code}`);
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
  const loop = new Loop<Step, Say, string>(machine, {
    clock,
    store,
    perform: (effect) => {
      trace.push(effect.text);
      options.onSay?.(effect.text);
    },
    onHalt: (error) => trace.push(`halted: ${error instanceof Error ? error.message : ''}`),
    ...(options.heldMax === undefined ? {} : { queuedEffectsMax: options.heldMax }),
  });
  const endWrite = (outcome: Parameters<Done<void>>[0] = success(undefined)) => writes.shift()?.(outcome);
  const advance = (toMs: number) => {
    nowMs = toMs;
    for (const timer of timers.splice(0)) if (timer.atMs <= nowMs) timer.run();
  };
  return { loop, trace, endWrite, advance };
}

describe('loop', () => {
  it('performs at once what no persist precedes, and holds what one does', () => {
    const { loop, trace, endWrite } = bench();
    loop.feed(act(say('before'), persist('vote'), say('after')));
    assert.deepEqual(trace, ['before', 'write vote']);
    endWrite();
    assert.deepEqual(trace, ['before', 'write vote', 'after']);
  });

  it('steps inputs during a write and puts their persists into the next one together', () => {
    const { loop, trace, endWrite } = bench();
    loop.feed(act(persist('a'), say('a is durable')));
    loop.feed(act(persist('b'), say('b is durable')));
    loop.feed(act(say('no persist of its own')));
    loop.feed(act(persist('c'), say('c is durable')));
    assert.deepEqual(trace, ['write a']);
    endWrite();
    assert.deepEqual(trace, ['write a', 'a is durable', 'write b+c']);
    endWrite();
    assert.deepEqual(trace.slice(3), ['b is durable', 'no persist of its own', 'c is durable']);
  });

  it('lets pass what is ahead of every write, after the effects beside it have found their place', () => {
    const world = bench({
      onSay: (text) => {
        if (text === 'heartbeat') world.loop.feed(act(say('because of it')));
      },
    });
    world.loop.feed(act(persist('a')));
    world.loop.feed(act({ ...say('heartbeat'), immediate: true }, say('waits')));
    assert.deepEqual(world.trace, ['write a', 'heartbeat']);
    world.endWrite();
    assert.deepEqual(world.trace.slice(2), ['waits', 'because of it']);
  });

  it('keeps the order when an effect feeds the loop again', () => {
    const world = bench({
      onSay: (text) => {
        if (text === 'first') world.loop.feed(act(say('third')));
      },
    });
    world.loop.feed(act(say('first'), say('second')));
    assert.deepEqual(world.trace, ['first', 'second', 'third']);
  });

  it('performs an effect whole before what is ahead of every write because of it', () => {
    const world = bench({
      onSay: (text) => {
        if (text !== 'entry 1' && text !== 'heartbeat') return;
        world.loop.feed(act({ ...say(`ahead after ${text}`), immediate: true }, say(`behind ${text}`)));
        world.trace.push(`${text} is done`);
      },
    });
    world.loop.feed(act(say('entry 1'), say('entry 2')));
    assert.deepEqual(world.trace.splice(0), [
      ...['entry 1', 'entry 1 is done', 'ahead after entry 1', 'entry 2', 'behind entry 1'],
    ]);
    world.loop.feed(act({ ...say('heartbeat'), immediate: true }));
    assert.deepEqual(world.trace, ['heartbeat', 'heartbeat is done', 'ahead after heartbeat', 'behind heartbeat']);
  });

  it('tells the machine of a failed write, holds everything and tries again', () => {
    const { loop, trace, endWrite, advance } = bench();
    loop.feed(act(persist('a'), say('a is durable')));
    endWrite(failure('STORE_FULL'));
    loop.feed(act(persist('b'), say('b is durable')));
    assert.deepEqual(trace, ['write a', 'told STORE_FULL']);
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

  it('forgets a timer by its key, also one that was set again', () => {
    const { loop, trace, advance } = bench();
    const timer = (name: string, atMs: number, key: string) => ({ kind: 'schedule', atMs, timer: name, key }) as const;
    const forget = (key: string) => ({ kind: 'unschedule', key }) as const;
    loop.feed(act(timer('a', 10, 'k'), timer('b', 10, 'l'), forget('k'), forget('never set')));
    advance(10);
    assert.deepEqual(trace, ['expired b']);
    loop.feed(act(forget('l'), timer('c', 20, 'l'), timer('d', 30, 'm')));
    loop.feed(act(forget('l')));
    advance(30);
    assert.deepEqual(trace, ['expired b', 'expired d']);
  });

  it('halts, once and for good, when more waits for the disk than it may hold', () => {
    const { loop, trace, endWrite } = bench({ heldMax: 2 });
    loop.feed(act(persist('a'), say('one')));
    loop.feed(act(say('two')));
    endWrite();
    loop.feed(act(say('three')));
    assert.deepEqual(trace, ['write a', 'halted: more than 2 effects wait for the disk']);
  });

  it('performs nothing after stop, whatever was held', () => {
    const { loop, trace, endWrite, advance } = bench();
    loop.feed(act(persist('a'), say('a is durable'), { kind: 'schedule', atMs: 10, timer: 'late' }));
    loop.stop();
    endWrite();
    advance(10);
    loop.feed(act(say('late')));
    assert.deepEqual(trace, ['write a']);
  });
});
