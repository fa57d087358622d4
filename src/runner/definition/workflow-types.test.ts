import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowDefinition } from './workflow-context.ts';
import { workflow } from './workflow.ts';

const checkout = workflow('checkout', {
  vus: 3,
  duration: '1s',
  setup: async (ctx) => ({ base: ctx.env['TARGET'] ?? '' }),
  steps: {
    browse: async (ctx) => ctx.http.get(ctx.data.base.concat('/')),
    buy: { after: ['browse'], run: (ctx) => ctx.results.browse, think: ['1s', '2s'] },
    pay: async (ctx) => ctx.check(await ctx.http.post(`${ctx.data.base}/pay`, { json: 1 }), (r) => r.status === 200),
  },
});
const flowing = workflow('flowing', {
  vus: 3,
  duration: '1s',
  setup: () => ({ base: 'x' }),
  steps: (flow) =>
    flow
      .step('login', async (ctx) => ({ token: ctx.data.base }))
      .step('buy', (ctx) => ctx.results.login.token.length, { think: '1s' })
      .step('pay', (ctx) => ctx.results.buy.toFixed() + ctx.results.login.token),
});
const lengths = workflow('lengths', {
  setup: () => 5,
  items: [{ text: 'a' }, { text: 'bc' }],
  each: (item, ctx) => item.text.length + ctx.data,
});
const squares = workflow('squares', { items: async (ctx) => ctx.range(10), each: (item) => item ** 2 });
const names = workflow('names', {
  setup: () => ['a', 'b'],
  items: (ctx) => ctx.data,
  each: (item) => item.toUpperCase(),
});
const crack = workflow('crack', { items: 10, first: true, each: (item) => (item > 3 ? `${item}` : undefined) });

test('a definition has the type of its result for later workflows', () => {
  const typed: {
    readonly checkout: WorkflowDefinition<{ base: string }>;
    readonly flowing: WorkflowDefinition<{ base: string }>;
    readonly lengths: WorkflowDefinition<(number | null)[]>;
    readonly names: WorkflowDefinition<(string | null)[]>;
    readonly crack: WorkflowDefinition<string | undefined | null>;
  } = { checkout, flowing, lengths, names, crack };
  assert.deepEqual(Object.keys(typed), ['checkout', 'flowing', 'lengths', 'names', 'crack']);
  workflow('after', {
    after: ['checkout', 'lengths'],
    items: 1,
    each: (_item, ctx) => {
      const total: number = ctx.from(lengths).reduce<number>((sum, length) => sum + (length ?? 0), 0);
      const base: string = ctx.from(checkout).base;
      const root: number | null | undefined = ctx.from(squares)[0];
      return [total, base, root];
    },
  });
});

/** Never called: the compiler checks it. */
export function mistakes(): void {
  workflow('x', {
    iterations: 1,
    steps: {
      a: () => 1,
      // @ts-expect-error: there is no such step
      b: (ctx) => ctx.results.c,
    },
  });
  workflow('x', {
    iterations: 1,
    // @ts-expect-error: there is no such step
    steps: {
      a: () => 1,
      b: { after: ['c'], run: () => 1 },
    },
  });
  workflow('x', {
    iterations: 1,
    setup: () => ({ base: '' }),
    steps: {
      // @ts-expect-error: the result of setup has no such field
      a: (ctx) => ctx.data.bass,
    },
  });
  workflow('x', {
    iterations: 1,
    steps: (flow) =>
      flow
        .step('a', () => 1)
        // @ts-expect-error: a number has no length
        .step('b', (ctx) => ctx.results.a.length)
        // @ts-expect-error: c comes later
        .step('d', (ctx) => ctx.results.c)
        .step('c', () => 1),
  });
  // @ts-expect-error: no such field
  workflow('x', { iterations: 1, users: 3, steps: { a: () => 1 } });
  // @ts-expect-error: users are for load tests
  workflow('x', { items: 1, vus: 3, each: () => 1 });
  // @ts-expect-error: only a batch has items that fail
  workflow('x', { iterations: 1, steps: { a: () => 1 }, onItemError: 'stop' });
  // @ts-expect-error: no such policy
  workflow('x', { items: 1, onItemError: 'ignore', each: () => 1 });
  // @ts-expect-error: a limit contradicts `continue`
  workflow('x', { items: 1, onItemError: 'continue', maxFailures: 3, each: () => 1 });
  // @ts-expect-error: a batch needs items
  workflow('x', { each: () => 1 });
  workflow('x', {
    items: ['a'],
    // @ts-expect-error: an item is a text
    each: (item) => item.toFixed(),
  });
  workflow('x', {
    items: 3,
    // @ts-expect-error: an item is a number
    each: (item) => item.toUpperCase(),
  });
  workflow('x', {
    items: 3,
    each: (_item, ctx) => {
      // @ts-expect-error: the results of lengths are numbers
      const text: string[] = ctx.from(lengths);
      // @ts-expect-error: no such request
      void ctx.http.fetch('/');
      // @ts-expect-error: a metric has a name
      ctx.metrics.count(5);
      return text;
    },
  });
  // @ts-expect-error: a stage has a target
  workflow('x', { stages: [{ duration: '1s' }], steps: { a: () => 1 } });
}
