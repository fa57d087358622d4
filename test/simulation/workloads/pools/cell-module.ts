/**
 * The module that simulated pools run: text registers that also record their container and executed calls, to detect
 * mixed state and duplicates.
 */
import { type Context, type ModuleDefinition, module } from '../../../../src/containers/module.ts';
import { poolLabel } from './pool-label.ts';

export type CellExecution = {
  readonly node: string;
  readonly pool: string;
  readonly container: number;
  readonly call: string;
  readonly isWrite: boolean;
  readonly tag: string | undefined;
  readonly wasExecuted: boolean;
};

export type CellObserver = {
  executed(run: CellExecution): void;
  opened(ctx: Context, how: string): void;
};

export type CellDump = { readonly tag: string; readonly done: readonly string[] };

export const cellModuleName = 'cells';
/** What a state keeps for each writing call that was done in it, by call id. */
export const executedPrefix = 'done/';
const tagKey = 'tag';
const dumpedMax = 100_000;

export function stateTagOf(pool: string, container: number): string {
  return `${pool}/${container}`;
}

export function cellModule(witness: CellObserver): ModuleDefinition {
  const reading = (ctx: Context): void => witness.executed(runOf(ctx, false));
  const writing = (ctx: Context): void => {
    witness.executed(runOf(ctx, true));
    ctx.state.set(executedPrefix + ctx.callId, true);
  };
  const opened = (ctx: Context, how: string): void => {
    if (how === 'init') ctx.state.set(tagKey, stateTagOf(poolLabel(ctx.pool.name, ctx.pool.params), ctx.container));
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
        run: (ctx): CellDump => {
          reading(ctx);
          const entries = ctx.state.entries({ prefix: executedPrefix, limit: dumpedMax });
          return { tag: ctx.state.get(tagKey) ?? '', done: entries.map(([key]) => key.slice(executedPrefix.length)) };
        },
      },
    },
  });
}

function runOf(ctx: Context, isWrite: boolean): CellExecution {
  return {
    ...{ node: ctx.node, pool: poolLabel(ctx.pool.name, ctx.pool.params), container: ctx.container },
    ...{ call: ctx.callId, isWrite },
    tag: ctx.state.get(tagKey),
    wasExecuted: isWrite && ctx.state.has(executedPrefix + ctx.callId),
  };
}

function cellKey(cell: string): string {
  return `cell/${cell}`;
}

function textOf(ctx: Context, cell: string): string {
  return ctx.state.get(cellKey(cell)) ?? '';
}
