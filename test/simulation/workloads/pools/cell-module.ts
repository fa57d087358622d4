/**
 * The module that simulated pools run: text registers. Each state also records its container and the executed calls, so
 * that mixed states and duplicate executions are found.
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
  opened(ctx: Context, opening: string): void;
};

export type CellDump = { readonly tag: string; readonly done: readonly string[] };

export const cellModuleName = 'cells';
/** Prefix of the keys under which a state records executed writes, by call id. */
export const executedPrefix = 'done/';
const tagKey = 'tag';
const dumpedMax = 100_000;

export function stateTagOf(pool: string, container: number): string {
  return `${pool}/${container}`;
}

export function cellModule(observer: CellObserver): ModuleDefinition {
  const onRead = (ctx: Context): void => observer.executed(runOf(ctx, false));
  const onWrite = (ctx: Context): void => {
    observer.executed(runOf(ctx, true));
    ctx.state.set(executedPrefix + ctx.callId, true);
  };
  const opened = (ctx: Context, opening: string): void => {
    if (opening === 'init') ctx.state.set(tagKey, stateTagOf(poolLabel(ctx.pool.name, ctx.pool.params), ctx.container));
    observer.opened(ctx, opening);
  };
  return module(cellModuleName, {
    init: (ctx) => opened(ctx, 'init'),
    restart: (ctx) => opened(ctx, 'restart'),
    recover: (ctx) => opened(ctx, 'recover'),
    methods: {
      append: (ctx, cell: string, text: string) => {
        onWrite(ctx);
        const whole = textOf(ctx, cell) + text;
        ctx.state.set(cellKey(cell), whole);
        return whole;
      },
      put: (ctx, cell: string, text: string) => {
        onWrite(ctx);
        ctx.state.set(cellKey(cell), text);
        return '';
      },
      swap: (ctx, cell: string, text: string, expected: string) => {
        onWrite(ctx);
        const before = textOf(ctx, cell);
        if (before === expected) ctx.state.set(cellKey(cell), text);
        return before;
      },
      read: {
        readonly: true,
        run: (ctx, cell: string) => {
          onRead(ctx);
          return textOf(ctx, cell);
        },
      },
      dump: {
        readonly: true,
        run: (ctx): CellDump => {
          onRead(ctx);
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
