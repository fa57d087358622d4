/**
 * The built-in methods `$export` and `$import`, in pages. They run as calls, so order, replication and durability hold.
 * The dedup table is not exported.
 */
import { RemusterError } from '../../base/errors.ts';
import { decodeValue } from '../../messages/codec/value.ts';
import type { Context } from '../module.ts';
import type { ContainerContents } from './state/container-contents.ts';
import { decodeArgs, type ModuleMethod } from './turns/module-methods.ts';
import { rowKinds } from './state/state-rows.ts';

/** No method of a module starts with `$`. */
export const transferNames = { export: '$export', import: '$import' } as const;

/** `s` is state, `t` a timer; the value stays encoded. */
export type TransferRow = readonly [kind: 's' | 't', key: string, value: Uint8Array];

const pageRowsMax = 1_000;
const pageBytesMax = 262_144;

export function transferMethods(contents: ContainerContents): readonly ModuleMethod[] {
  return [
    {
      name: transferNames.export,
      isReadonly: true,
      isStreaming: true,
      run: () => pagesOf(rowsIn(contents), contents.state.pin()),
    },
    {
      name: transferNames.import,
      isReadonly: false,
      isStreaming: false,
      run: (ctx, ...page) => importPage(contents, ctx, page),
    },
  ];
}

/**
 * A consistent snapshot: values are pinned until all pages are read. If the reader never starts, they stay pinned and
 * writes cost more until the container closes. Timers come last, after the state.
 */
function rowsIn({ state, timers }: ContainerContents): readonly TransferRow[] {
  const rows: TransferRow[] = [];
  state.visit({}, (value, key) => rows.push([rowKinds.state, key, value]) > 0);
  timers.visit(({ name, row }) => rows.push([rowKinds.timer, name, row]) > 0);
  return rows;
}

async function* pagesOf(rows: readonly TransferRow[], unpin: () => void): AsyncGenerator<readonly TransferRow[]> {
  let page: TransferRow[] = [];
  let bytes = 0;
  try {
    for (const row of rows) {
      page.push(row);
      bytes += row[2].length;
      if (page.length < pageRowsMax && bytes < pageBytesMax) continue;
      yield page;
      page = [];
      bytes = 0;
    }
    if (page.length > 0) yield page;
  } finally {
    unpin();
  }
}

/** The first page replaces the state that `init` of the module has created. */
function importPage(contents: ContainerContents, ctx: Context, [isFirst, rows]: readonly unknown[]): number {
  if (typeof isFirst !== 'boolean' || !Array.isArray(rows) || !rows.every(isRow))
    throw new RemusterError('BAD_ARGUMENT', 'malformed page: give [isFirst, rows]');
  const session = ctx.callId.slice(0, ctx.callId.lastIndexOf('/'));
  if (contents.dedup.hasOtherCallersThan(session))
    throw new RemusterError(
      'PRECONDITION',
      `other callers have written to container ${ctx.container}: import into a new pool`,
    );
  if (isFirst) clear(contents, ctx);
  for (const [kind, key, value] of rows) {
    if (kind === 's') ctx.state.set(key, decodeValue(value));
    else setTimer(ctx, key, value);
  }
  return rows.length;
}

function clear({ timers }: ContainerContents, ctx: Context): void {
  const names: string[] = [];
  timers.visit(({ name }) => names.push(name) > 0);
  for (const name of names) ctx.timers.cancel(name);
  for (const [key] of ctx.state.entries({ limit: Infinity })) ctx.state.delete(key);
}

/** The due time stays; a timer that was due meanwhile is due at once. */
function setTimer(ctx: Context, name: string, row: Uint8Array): void {
  const [dueWallMs, method, args] = decodeValue(row) as readonly [number, string, Uint8Array];
  ctx.timers.set(name, dueWallMs - ctx.now(), method, ...decodeArgs(args));
}

function isRow(row: unknown): row is TransferRow {
  if (!Array.isArray(row)) return false;
  const [kind, key, value] = row as readonly unknown[];
  return (kind === 's' || kind === 't') && typeof key === 'string' && value instanceof Uint8Array;
}
