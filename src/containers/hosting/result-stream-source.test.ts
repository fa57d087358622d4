import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { isRemusterError } from '../../base/errors.ts';
import { decodeValue } from '../../messages/codec/value.ts';
import { type Context, module } from '../module.ts';
import {
  type StartedCall,
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
  const harness = new HostingHarness(definition, { readersMax: 2 });
  harness.open();
  return { harness, seen, contexts };
}

function flowOf({ outcome }: StartedCall): AsyncIterator<Uint8Array> {
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

describe('a result stream', () => {
  it('yields item after item and ends', async () => {
    const { harness, seen } = flowing();
    const flow = flowOf(harness.call('count', [2]));
    assert.deepEqual(
      [await nextOf(flow), await nextOf(flow), await nextOf(flow), await nextOf(flow)],
      [1, 2, 'over', 'over'],
    );
    assert.deepEqual(seen, ['over']);
    assert.equal(harness.host.load().calls, 0);
  });

  it('ends when its reader stops', async () => {
    const { harness, seen } = flowing();
    const flow = flowOf(harness.call('count', [1_000]));
    await nextOf(flow);
    await flow.return?.();
    await settle();
    assert.deepEqual(seen, ['over']);
    assert.equal(await nextOf(flow), 'over');
  });

  it('fails on cancellation, deadline or close, even if its method ignores the signal', async () => {
    for (const [end, code] of [
      [(_scene: HostingHarness, started: StartedCall) => started.cancel(), 'CANCELLED'],
      [(harness: HostingHarness) => harness.run(30_000), 'DEADLINE'],
      [(harness: HostingHarness) => harness.remove(), 'FENCED'],
      [
        (harness: HostingHarness) => harness.change({ move: { to: other, cause: 'admin', step: 'handing' } }),
        'PLUGGED',
      ],
    ] as const) {
      const { harness, contexts } = flowing();
      const started = harness.call('follow');
      const flow = flowOf(started);
      assert.equal(await nextOf(flow), 0);
      const next = assert.rejects(nextOf(flow), isCode(code));
      end(harness, started);
      await next;
      await assert.rejects(nextOf(flow), isCode(code));
      assert.equal(contexts[0]?.signal.aborted, true);
      assert.equal(started.times, 1);
    }
  });

  it('delays an item until what it has read is committed', async () => {
    const { harness } = flowing();
    harness.commitsEnd = false;
    harness.call('set', [5]);
    const flow = flowOf(harness.call('look'));
    let item: unknown;
    const reading = nextOf(flow).then((value) => (item = value));
    await settle();
    assert.equal(item, undefined);
    harness.log.end();
    await reading;
    assert.equal(item, 5);
    await flow.return?.();
  });

  it('yields nothing without the lease', async () => {
    const { harness } = flowing();
    const flow = flowOf(harness.call('look'));
    assert.equal(await nextOf(flow), 0);
    harness.leaseEndsSilently();
    await assert.rejects(nextOf(flow), isCode('NO_QUORUM'));
  });

  it('fails with the error that its method threw', async () => {
    const { harness } = flowing();
    const flow = flowOf(harness.call('fails'));
    assert.equal(await nextOf(flow), 1);
    await assert.rejects(nextOf(flow), /broken/);
  });

  it('takes a read slot until it ends', async () => {
    const { harness } = flowing();
    const flows = [harness.call('follow'), harness.call('follow')].map(flowOf);
    const third = harness.call('count', [1]);
    assert.equal(codeOf(third), 'none');
    await flows[0]?.return?.();
    assert.equal(await nextOf(flowOf(third)), 1);
    await flows[1]?.return?.();
  });

  it('comes from readonly methods only', () => {
    const { harness } = flowing();
    const call = harness.call('wrong');
    harness.run();
    assert.equal(codeOf(call), 'CALL_FAILED');
  });

  it('is refused from a method that is not declared as an async generator', async () => {
    async function* numbers(): AsyncGenerator<number> {
      yield 1;
    }
    const methods = {
      plain: { readonly: true, run: () => numbers() },
      promised: { readonly: true, run: async () => numbers() },
    };
    const harness = new HostingHarness(module('m', { methods }));
    harness.open();
    for (const method of ['plain', 'promised'] as const) {
      const call = harness.call(method);
      await settle();
      harness.run();
      const { outcome } = call;
      assert.match(outcome?.ok === false ? outcome.error.message : '', /returns an async generator: declare/);
    }
  });
});

describe('a call of another container', () => {
  const target = module('other', { methods: { hello: (_ctx: Context, name: string) => `hello ${name}` } });

  it('has no more time than the outer call, and ends with it', async () => {
    const made: unknown[] = [];
    let signal: AbortSignal | undefined;
    const harness = new HostingHarness(
      module('m', {
        methods: {
          ask: async (ctx, timeoutMs?: number) => {
            const pool = ctx.call(target, 'others');
            const started = timeoutMs === undefined ? pool : pool.with({ timeoutMs });
            return started.id(3).hello('you');
          },
        },
      }),
    );
    harness.session = {
      call: (call, options) => {
        signal = options.signal;
        made.push([call, options.timeoutMs]);
        return new Promise((_resolve, reject) => {
          options.signal?.addEventListener('abort', () => reject(new Error('aborted')));
        });
      },
    };
    harness.open();
    const ask = harness.call('ask', [], { remainingMs: 700 });
    const hello = {
      pool: 'others',
      method: 'hello',
      args: ['you'],
      route: { id: 3 },
      isFanOut: false,
      aggregate: undefined,
    };
    assert.deepEqual(made, [[hello, 700]]);
    ask.cancel();
    assert.equal(signal?.aborted, true);
    await settle();
    for (const timeoutMs of [100, 900]) {
      harness.call('ask', [timeoutMs], { remainingMs: 700 }).cancel();
      await settle();
    }
    assert.deepEqual(
      made.slice(1).map((one) => (one as [unknown, number])[1]),
      [100, 700],
    );
  });

  it('is refused after the end of the outer call', async () => {
    let ctx: Context | undefined;
    const harness = new HostingHarness(module('m', { methods: { keep: (given) => void (ctx = given) } }));
    harness.open();
    const keep = harness.call('keep');
    harness.run();
    assert.equal(valueOf(keep), undefined);
    assert.throws(() => ctx?.call(target, 'others').id(1).hello('x'), /the call has ended/);
    await settle();
  });
});
