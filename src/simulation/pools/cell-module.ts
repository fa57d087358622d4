/**
 * The module that simulated pools run: cells of text, as in cell-model.ts. Its state also says whose it is and which
 * calls have been done in it, so that a checker sees state of another container and calls that run twice. Every method
 * is synchronous, and every run of one is told to the witness before it changes anything.
 */
import { type Context, type ModuleDefinition, module } from '../../containers/module.ts';
import { labelOf } from './pool-label.ts';

export type Run = {
  readonly node: string;
  readonly pool: string;
  readonly container: number;
  readonly call: string;
  readonly isWriting: boolean;
  readonly tag: string | undefined;
  readonly isDone: boolean;
};

export type CellWitness = {
  ran(run: Run): void;
  opened(ctx: Context, how: string): void;
};

export type Dump = { readonly tag: string; readonly done: readonly string[] };

export const cellModuleName = 'cells';
/** What a state keeps for each writing call that was done in it, by call id. */
export const donePrefix = 'done/';
const tagKey = 'tag';
const dumpedMax = 100_000;

export function tagOf(pool: string, container: number): string {
  return `${pool}/${container}`;
}

export function cellModule(witness: CellWitness): ModuleDefinition {
  const reading = (ctx: Context): void => witness.ran(runOf(ctx, false));
  const writing = (ctx: Context): void => {
    witness.ran(runOf(ctx, true));
    ctx.state.set(donePrefix + ctx.callId, true);
  };
  const opened = (ctx: Context, how: string): void => {
    if (how === 'init') ctx.state.set(tagKey, tagOf(labelOf(ctx.pool.name, ctx.pool.params), ctx.container));
    witness.opened(ctx, how);
  };
  return module(cellModuleName, {
    init: (ctx) => opened(ctx, 'init'),
    restart: (ctx) => opened(ctx, 'restart'),
    recover: (ctx) => opened(ctx, 'recover'),
    methods: {
      append: (ctx, cell: string, text: string) => {
        writing(ctx);
        const whole = textOf(ctx, cell) + text;
        ctx.state.set(cellKey(cell), whole);
        return whole;
      },
      put: (ctx, cell: string, text: string) => {
        writing(ctx);
        ctx.state.set(cellKey(cell), text);
        return '';
      },
      swap: (ctx, cell: string, text: string, expected: string) => {
        writing(ctx);
        const before = textOf(ctx, cell);
        if (before === expected) ctx.state.set(cellKey(cell), text);
        return before;
      },
      read: {
        readonly: true,
        run: (ctx, cell: string) => {
          reading(ctx);
          return textOf(ctx, cell);
        },
      },
      dump: {
        readonly: true,
        run: (ctx): Dump => {
          reading(ctx);
          const entries = ctx.state.entries({ prefix: donePrefix, limit: dumpedMax });
          return { tag: ctx.state.get(tagKey) ?? '', done: entries.map(([key]) => key.slice(donePrefix.length)) };
        },
      },
    },
  });
}

function runOf(ctx: Context, isWriting: boolean): Run {
  return {
    ...{ node: ctx.node, pool: labelOf(ctx.pool.name, ctx.pool.params), container: ctx.container },
    ...{ call: ctx.callId, isWriting },
    tag: ctx.state.get(tagKey),
    isDone: isWriting && ctx.state.has(donePrefix + ctx.callId),
  };
}

function cellKey(cell: string): string {
  return `cell/${cell}`;
}

function textOf(ctx: Context, cell: string): string {
  return ctx.state.get(cellKey(cell)) ?? '';
}
