/** The code that the jobs bench submits: work that does nothing, work that says when it began, work that never ends. */
import { workflow } from '../src/index.ts';

/** Each item's effect is its entry in the durable end of its unit. */
export const items = workflow('items', { items: 1, cores: 2, results: false, each: () => undefined });

/** By the same clock as the one who submits: both are on this machine. */
export const clock = workflow('clock', { items: 1, each: () => performance.timeOrigin + performance.now() });

export const endless = workflow('endless', {
  items: 1,
  timeout: '10m',
  each: async (_item, ctx) => await ctx.sleep(600_000),
});
