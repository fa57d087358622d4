/** The module that the bench calls, written through the public API. */
import { type Context, module } from '../../src/containers/module.ts';
import { type SendRequest, type LoadResult, measureLoad } from './load.ts';

export type LoadPlan = {
  readonly pool: string;
  /** `broadcast`: `noop` of every container of the pool at once. */
  readonly method: 'noop' | 'touch' | 'set' | 'broadcast';
  /** Asked in turn. */
  readonly containers: readonly number[];
  readonly concurrency: number;
  readonly durationMs: number;
};

const valueBytes = 100;
const keysPerContainer = 1_000;
const keys = Array.from({ length: keysPerContainer }, (_, i) => `key-${String(i).padStart(8, '0')}`);

function drive(ctx: Context, plan: LoadPlan): Promise<LoadResult> {
  const ask = askOf(ctx, plan);
  return measureLoad(ask, plan.concurrency, plan.durationMs);
}

function askOf(ctx: Context, { pool: name, method, containers }: LoadPlan): SendRequest {
  const pool = ctx.call(benchModule, name);
  const all = pool.broadcast();
  const targets = containers.map((container) => pool.id(container));
  let turn = 0;
  const failed = (error: unknown): never => {
    // A bench that measures refusals measures nothing.
    console.error(error);
    process.exit(1);
  };
  return (heard) => {
    turn += 1;
    const target = targets[turn % targets.length]!;
    if (method === 'noop') target.noop().then(heard, failed);
    else if (method === 'touch') target.touch().then(heard, failed);
    else if (method === 'set') target.set(keys[turn % keysPerContainer]!, valueOf(turn)).then(heard, failed);
    else all.noop().then(heard, failed);
  };
}

const value = new Uint8Array(valueBytes);
const head = new DataView(value.buffer);

/** Never the same twice: what a store has already it need not write. Calls encode it at once, so one buffer serves all. */
function valueOf(turn: number): Uint8Array {
  head.setFloat64(0, turn);
  return value;
}

export const benchModule = module('benched', {
  methods: {
    noop: { readonly: true, run: (_ctx: Context) => null },
    touch: (_ctx: Context) => null,
    set: (ctx: Context, key: string, value: Uint8Array) => ctx.state.set(key, value),
    drive: { readonly: true, run: drive },
  },
});
