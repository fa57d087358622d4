/**
 * A module of the tests' own, loaded by nodes with `--modules`. Each container counts, holds its turn for a while when it
 * is asked to, and remembers how often it was opened, and how: what was run once shows exactly once.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type Context, module, type Route } from '../../src/containers/module.ts';

export type Place = { readonly container: number; readonly node: string };

function opened(how: string): (ctx: Context) => void {
  return (ctx) => ctx.state.set('lives', [...lives(ctx), `${how} ${ctx.node}`]);
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

/** Nobody else writes here meanwhile. */
async function hold(ctx: Context, ms: number): Promise<Place> {
  await pause(ms);
  ctx.state.set('held', (ctx.state.get<number>('held') ?? 0) + 1);
  return { container: ctx.container, node: ctx.node };
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
    lives: { readonly: true, run: lives },
    where: { readonly: true, run: where },
  },
  route: (): Route => ({ hash: 'always the same' }),
  init: opened('init'),
  restart: opened('restart'),
  recover: opened('recover'),
});
