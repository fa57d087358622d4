/** The module that the bench calls, written against the public API. */
import { type Context, module } from '../../src/containers/module.ts';
import { type SendBenchRequest, type LoadResult, measureLoad } from './load.ts';

export type LoadPlan = {
  readonly pool: string;
  /** `broadcast` calls `noop` of every container of the pool at once. */
  readonly method: 'noop' | 'touch' | 'set' | 'broadcast';
  /** Called round robin. */
  readonly containers: readonly number[];
  readonly concurrency: number;
  readonly durationMs: number;
};

const valueBytes = 100;
const keysPerContainer = 1_000;
const keys = Array.from({ length: keysPerContainer }, (_, i) => `key-${String(i).padStart(8, '0')}`);

function runLoad(ctx: Context, plan: LoadPlan): Promise<LoadResult> {
  return measureLoad(sendOf(ctx, plan), plan.concurrency, plan.durationMs);
}

function sendOf(ctx: Context, { pool: name, method, containers }: LoadPlan): SendBenchRequest {
  const pool = ctx.call(benchModule, name);
  const all = pool.broadcast();
  const targets = containers.map((container) => pool.id(container));
  let count = 0;
  const fail = (error: unknown): never => {
    // The rate of failed calls is meaningless.
    console.error(error);
    process.exit(1);
  };
  return (onReply) => {
    count += 1;
    const target = targets[count % targets.length]!;
    if (method === 'noop') target.noop().then(onReply, fail);
    else if (method === 'touch') target.touch().then(onReply, fail);
    else if (method === 'set') target.set(keys[count % keysPerContainer]!, valueOf(count)).then(onReply, fail);
    else all.noop().then(onReply, fail);
  };
}

const value = new Uint8Array(valueBytes);
const head = new DataView(value.buffer);

/**
 * A new value each time, because a store may skip an unchanged one. One buffer: calls encode their arguments at once.
 */
function valueOf(count: number): Uint8Array {
  head.setFloat64(0, count);
  return value;
}

export const benchModule = module('bench', {
  methods: {
    noop: { readonly: true, run: (_ctx: Context) => null },
    touch: (_ctx: Context) => null,
    set: (ctx: Context, key: string, value: Uint8Array) => ctx.state.set(key, value),
    runLoad: { readonly: true, run: runLoad },
  },
});
