/** The module that process tests load with `--modules`: it counts, holds its turn, and records how it was opened. */
import { setTimeout as pause } from 'node:timers/promises';
import { type Context, module, type Route } from '../../../src/containers/module.ts';

export type Place = { readonly container: number; readonly node: string };

function opened(opening: string): (ctx: Context) => void {
  return (ctx) => ctx.state.set('lives', [...lives(ctx), `${opening} ${ctx.node}`]);
}

function lives(ctx: Context): readonly string[] {
  return ctx.state.get<string[]>('lives') ?? [];
}

function count(ctx: Context): number {
  return ctx.state.get<number>('count') ?? 0;
}

function add(ctx: Context, by: number): number {
  const sum = count(ctx) + by;
  ctx.state.set('count', sum);
  return sum;
}

/** The containers of this process that hold their turn at this moment. */
const holders = new Set<string>();

/** Holds the turn of its container for a time: no other write runs meanwhile. */
async function hold(ctx: Context, ms: number): Promise<Place> {
  const name = `${ctx.pool.name}/${ctx.container}`;
  holders.add(name);
  try {
    await pause(ms);
  } finally {
    holders.delete(name);
  }
  ctx.state.set('held', held(ctx) + 1);
  return where(ctx);
}

function isHolding({ pool, container }: Context): boolean {
  return holders.has(`${pool.name}/${container}`);
}

function held(ctx: Context): number {
  return ctx.state.get<number>('held') ?? 0;
}

function where({ container, node }: Context): Place {
  return { container, node };
}

export const counter = module('counter', {
  methods: {
    add,
    hold,
    count: { readonly: true, run: count, aggregate: (parts: number[]) => parts.reduce((sum, part) => sum + part, 0) },
    held: { readonly: true, run: held },
    isHolding: { readonly: true, run: isHolding },
    lives: { readonly: true, run: lives },
    where: { readonly: true, run: where },
  },
  route: (): Route => ({ hash: 'always the same' }),
  init: opened('init'),
  restart: opened('restart'),
  recover: opened('recover'),
});
