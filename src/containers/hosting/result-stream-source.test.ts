import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { isRemusterError } from '../../base/errors.ts';
import { decodeValue } from '../../messages/codec/value.ts';
import { type Context, module } from '../module.ts';
import {
  type PendingCall,
  codeOf,
  other,
  HostingHarness,
  settle,
  valueOf,
} from '../../../test/support/containers/hosting-harness.ts';

function flowing() {
  const seen: string[] = [];
  const contexts: Context[] = [];
  const definition = module('m', {
    methods: {
      count: {
        readonly: true,
        run: async function* (_ctx: Context, to: number) {
          try {
            for (let n = 1; n <= to; n++) yield n;
          } finally {
            seen.push('over');
          }
        },
      },
      follow: {
        readonly: true,
        run: async function* (ctx) {
          contexts.push(ctx);
          for (;;) {
            yield ctx.state.get('n') ?? 0;
            await new Promise<void>(() => {});
          }
        },
      },
      look: {
        readonly: true,
        run: async function* (ctx) {
          for (;;) yield ctx.state.get('n') ?? 0;
        },
      },
      fails: {
        readonly: true,
        run: async function* () {
          yield 1;
          throw new Error('broken');
        },
      },
      set: (ctx, n: number) => ctx.state.set('n', n),
      wrong: async function* () {
        yield 1;
      },
    },
  });
  const scene = new HostingHarness(definition, { readersMax: 2 });
  scene.open();
  return { scene, seen, contexts };
}

function flowOf({ outcome }: PendingCall): AsyncIterator<Uint8Array> {
  assert.ok(outcome?.ok === true && 'stream' in outcome.value);
  return outcome.value.stream[Symbol.asyncIterator]();
}

async function nextOf(flow: AsyncIterator<Uint8Array>): Promise<unknown> {
  const { done, value } = await flow.next();
  return done === true ? 'over' : decodeValue(value);
}

function isCode(code: Parameters<typeof isRemusterError>[1]): (error: unknown) => boolean {
  return (error) => isRemusterError(error, code);
}

describe('a flow', () => {
  it('gives item after item and ends', async () => {
    const { scene, seen } = flowing();
    const flow = flowOf(scene.call('count', [2]));
    assert.deepEqual(
      [await nextOf(flow), await nextOf(flow), await nextOf(flow), await nextOf(flow)],
      [1, 2, 'over', 'over'],
    );
    assert.deepEqual(seen, ['over']);
    assert.equal(scene.host.load().calls, 0);
  });

  it('ends when its reader has enough', async () => {
    const { scene, seen } = flowing();
    const flow = flowOf(scene.call('count', [1_000]));
    await nextOf(flow);
    await flow.return?.();
    await settle();
    assert.deepEqual(seen, ['over']);
    assert.equal(await nextOf(flow), 'over');
  });

  it('ends with an error when its caller cancels, its time is over or the container closes, even if it does not listen', async () => {
    for (const [end, code] of [
      [(_scene: HostingHarness, asked: PendingCall) => asked.cancel(), 'CANCELLED'],
      [(scene: HostingHarness) => scene.run(30_000), 'DEADLINE'],
      [(scene: HostingHarness) => scene.remove(), 'FENCED'],
      [(scene: HostingHarness) => scene.change({ move: { to: other, cause: 'admin', step: 'handing' } }), 'PLUGGED'],
    ] as const) {
      const { scene, contexts } = flowing();
      const asked = scene.call('follow');
      const flow = flowOf(asked);
      assert.equal(await nextOf(flow), 0);
      const next = assert.rejects(nextOf(flow), isCode(code));
      end(scene, asked);
      await next;
      await assert.rejects(nextOf(flow), isCode(code));
      assert.equal(contexts[0]?.signal.aborted, true);
      assert.equal(asked.times, 1);
    }
  });

  it('holds an item back until what it saw is committed', async () => {
    const { scene } = flowing();
    scene.commitsEnd = false;
    scene.call('set', [5]);
    const flow = flowOf(scene.call('look'));
    let item: unknown;
    const reading = nextOf(flow).then((value) => (item = value));
    await settle();
    assert.equal(item, undefined);
    scene.log.end();
    await reading;
    assert.equal(item, 5);
    await flow.return?.();
  });

  it('gives nothing without the lease', async () => {
    const { scene } = flowing();
    const flow = flowOf(scene.call('look'));
    assert.equal(await nextOf(flow), 0);
    scene.leaseEndsSilently();
    await assert.rejects(nextOf(flow), isCode('NO_QUORUM'));
  });

  it('tells what its method threw', async () => {
    const { scene } = flowing();
    const flow = flowOf(scene.call('fails'));
    assert.equal(await nextOf(flow), 1);
    await assert.rejects(nextOf(flow), /broken/);
  });

  it('counts as a reader until it is over', async () => {
    const { scene } = flowing();
    const flows = [scene.call('follow'), scene.call('follow')].map(flowOf);
    const third = scene.call('count', [1]);
    assert.equal(codeOf(third), 'none');
    await flows[0]?.return?.();
    assert.equal(await nextOf(flowOf(third)), 1);
    await flows[1]?.return?.();
  });

  it('comes from readonly methods only', () => {
    const { scene } = flowing();
    const call = scene.call('wrong');
    scene.run();
    assert.equal(codeOf(call), 'CALL_FAILED');
  });
});

describe('a call of another container', () => {
  const target = module('other', { methods: { hello: (_ctx: Context, name: string) => `hello ${name}` } });

  it('has no more time than the call that makes it, and ends with it', async () => {
    const made: unknown[] = [];
    let signal: AbortSignal | undefined;
    const scene = new HostingHarness(
      module('m', {
        methods: {
          ask: async (ctx, timeoutMs?: number) => {
            const pool = ctx.call(target, 'others');
            const asked = timeoutMs === undefined ? pool : pool.with({ timeoutMs });
            return asked.id(3).hello('you');
          },
        },
      }),
    );
    scene.session = {
      call: (call, options) => {
        signal = options.signal;
        made.push([call, options.timeoutMs]);
        return new Promise((_resolve, reject) => {
          options.signal?.addEventListener('abort', () => reject(new Error('aborted')));
        });
      },
    };
    scene.open();
    const ask = scene.call('ask', [], { remainingMs: 700 });
    const hello = { pool: 'others', method: 'hello', args: ['you'], route: { id: 3 }, isFanOut: false };
    assert.deepEqual(made, [[hello, 700]]);
    ask.cancel();
    assert.equal(signal?.aborted, true);
    await settle();
    for (const timeoutMs of [100, 900]) {
      scene.call('ask', [timeoutMs], { remainingMs: 700 }).cancel();
      await settle();
    }
    assert.deepEqual(
      made.slice(1).map((one) => (one as [unknown, number])[1]),
      [100, 700],
    );
  });

  it('cannot be made after the end', async () => {
    let ctx: Context | undefined;
    const scene = new HostingHarness(module('m', { methods: { keep: (given) => void (ctx = given) } }));
    scene.open();
    const keep = scene.call('keep');
    scene.run();
    assert.equal(valueOf(keep), undefined);
    assert.throws(() => ctx?.call(target, 'others').id(1).hello('x'), /the call is over/);
    await settle();
  });
});
