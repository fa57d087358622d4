/**
 * `remuster registry watch [PREFIX]`: registry changes as JSON lines; resumes by revision, ends when history was
 * compacted.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError, parseErrorCode, isRemusterError } from '../../base/errors.ts';
import { readEvents, withQuery } from '../command/http-client.ts';
import type { OutputFormat } from '../output/render.ts';
import { type RegistryEntryView, abbreviateValue } from './registry.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';

type Change =
  | ({ readonly kind: 'put' } & Omit<RegistryEntryView, 'value'> & {
        readonly value?: string;
        readonly valueBytes?: number;
      })
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

export async function registryWatchCommand(
  prefix: string,
  flags: TargetFlags & { readonly from?: number },
  format: OutputFormat,
): Promise<number> {
  const target = await resolveTarget(flags);
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
    printNotice('the node ended the stream; reconnecting');
    await pause(reconnectMs);
  }
}

function pathOf(prefix: string, from: number | undefined): string {
  return withQuery('/v1/registry/watch', { prefix, ...(from === undefined ? {} : { from: String(from) }) });
}

/** The revision from which to go on. */
function follow(told: Told, target: ClusterTarget, next: number | undefined, format: OutputFormat): number | undefined {
  if (told.failed !== undefined) throw new RemusterError(parseErrorCode(told.failed.code), told.failed.message);
  if (told.compacted !== undefined) {
    const { oldestRevision } = told.compacted;
    throw new RemusterError(
      'PRECONDITION',
      `history before revision ${oldestRevision} is gone: list the keys again and watch with --from ${oldestRevision}`,
    );
  }
  if (told.from !== undefined) {
    if (next === undefined) printNotice(`watching ${target.addr} from revision ${told.from} on`);
    return told.from;
  }
  if (told.revision === undefined) return next;
  for (const change of told.changes ?? []) printData(lineOf(change, told.revision, format));
  return told.revision + 1;
}

function lineOf(change: Change, revision: number, format: OutputFormat): string {
  if (format === 'name') return stripControls(change.key);
  if (format !== 'table' && format !== 'wide') return JSON.stringify({ revision, ...change });
  const value = change.kind === 'delete' ? '' : abbreviateValue(change.value ?? `(${change.valueBytes} bytes)`);
  return stripControls([String(revision), change.kind, change.key, value].join('  ').trimEnd());
}
