/**
 * `remuster registry watch [PREFIX]`: prints registry changes as they happen. Resumes by revision after a broken
 * connection; ends with an error when the revisions it needs were compacted.
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

/**
 * Where to resume, with the epoch in which the revision was read: nothing of another epoch is printed as its sequel.
 */
type Resume = { readonly from: number | undefined; readonly epoch?: string | undefined };

type WatchEvent = {
  readonly from?: number;
  readonly epoch?: string;
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
  let next: Resume = { from: flags.from };
  for (let failures = 0; ; failures++) {
    try {
      for await (const event of readEvents(target, pathOf(prefix, next))) {
        failures = 0;
        next = follow(event as WatchEvent, target, next, format);
      }
    } catch (error) {
      // The first attempt fails at a wrong address; a later one may fail because the node restarts.
      const isLost = isRemusterError(error, 'UNREACHABLE') && next.from !== undefined && next.from !== flags.from;
      if (!isLost || failures >= reconnectsMax) throw error;
    }
    printNotice('the node closed the watch: reconnecting');
    await pause(reconnectMs);
  }
}

function pathOf(prefix: string, { from, epoch }: Resume): string {
  const start = { ...(from === undefined ? {} : { from: String(from) }), ...(epoch === undefined ? {} : { epoch }) };
  return withQuery('/v1/registry/watch', { prefix, ...start });
}

/** Prints an event; returns where to resume. */
function follow(event: WatchEvent, target: ClusterTarget, next: Resume, format: OutputFormat): Resume {
  if (event.failed !== undefined) throw new RemusterError(parseErrorCode(event.failed.code), event.failed.message);
  if (event.compacted !== undefined) {
    const { oldestRevision } = event.compacted;
    throw new RemusterError(
      'PRECONDITION',
      `the revisions before ${oldestRevision} were compacted, or the registry was restored: list the keys, then ` +
        `watch with --from ${oldestRevision}`,
    );
  }
  if (event.from !== undefined) {
    if (next.from === undefined) printNotice(`watching the registry at ${target.addr} from revision ${event.from} on`);
    return { from: event.from, epoch: event.epoch };
  }
  if (event.revision === undefined) return next;
  for (const change of event.changes ?? []) printData(lineOf(change, event.revision, format));
  return { from: event.revision + 1, epoch: next.epoch };
}

function lineOf(change: Change, revision: number, format: OutputFormat): string {
  if (format === 'name') return stripControls(change.key);
  if (format !== 'table' && format !== 'wide') return JSON.stringify({ revision, ...change });
  const value = change.kind === 'delete' ? '' : abbreviateValue(change.value ?? `(${change.valueBytes} bytes)`);
  return stripControls([String(revision), change.kind, change.key, value].join('  ').trimEnd());
}
