/**
 * `remuster registry watch [PREFIX]`: changes as they happen, one JSON object a line. It goes on where it was when the
 * connection breaks, and ends when history that it has not seen is gone.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError, parseErrorCode, isRemusterError } from '../base/errors.ts';
import { readEvents, withQuery } from './http-client.ts';
import type { Format } from './output.ts';
import { type Entry, shortValue } from './registry.ts';
import { findTarget, type Target, type TargetFlags } from './target.ts';
import { plain, print, say } from './terminal.ts';

type Change =
  | ({ readonly kind: 'put' } & Omit<Entry, 'value'> & { readonly value?: string; readonly valueBytes?: number })
  | { readonly kind: 'delete'; readonly key: string; readonly modRevision: number };

type Told = {
  readonly from?: number;
  readonly revision?: number;
  readonly changes?: readonly Change[];
  readonly compacted?: { readonly oldestRevision: number };
  readonly failed?: { readonly code: string; readonly message: string };
};

const reconnectMs = 500;
const reconnectsMax = 20;

export async function watchKeys(
  prefix: string,
  flags: TargetFlags & { readonly from?: number },
  format: Format,
): Promise<number> {
  const target = await findTarget(flags);
  let next = flags.from;
  for (let failures = 0; ; failures++) {
    try {
      for await (const told of readEvents(target, pathOf(prefix, next))) {
        failures = 0;
        next = follow(told as Told, target, next, format);
      }
    } catch (error) {
      // The first attempt tells whether the address is right; later on the node may be restarting.
      const isLost = isRemusterError(error, 'UNREACHABLE') && next !== undefined && next !== flags.from;
      if (!isLost || failures >= reconnectsMax) throw error;
    }
    say('the node ended the stream; reconnecting');
    await pause(reconnectMs);
  }
}

function pathOf(prefix: string, from: number | undefined): string {
  return withQuery('/v1/registry/watch', { prefix, ...(from === undefined ? {} : { from: String(from) }) });
}

/** The revision from which to go on. */
function follow(told: Told, target: Target, next: number | undefined, format: Format): number | undefined {
  if (told.failed !== undefined) throw new RemusterError(parseErrorCode(told.failed.code), told.failed.message);
  if (told.compacted !== undefined) {
    const { oldestRevision } = told.compacted;
    throw new RemusterError(
      'PRECONDITION',
      `history before revision ${oldestRevision} is gone: list the keys again and watch with --from ${oldestRevision}`,
    );
  }
  if (told.from !== undefined) {
    if (next === undefined) say(`watching ${target.addr} from revision ${told.from} on`);
    return told.from;
  }
  if (told.revision === undefined) return next;
  for (const change of told.changes ?? []) print(lineOf(change, told.revision, format));
  return told.revision + 1;
}

function lineOf(change: Change, revision: number, format: Format): string {
  if (format === 'name') return plain(change.key);
  if (format !== 'table' && format !== 'wide') return JSON.stringify({ revision, ...change });
  const value = change.kind === 'delete' ? '' : shortValue(change.value ?? `(${change.valueBytes} bytes)`);
  return plain([String(revision), change.kind, change.key, value].join('  ').trimEnd());
}
