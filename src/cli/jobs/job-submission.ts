/**
 * `run` and `job submit`: bundles a workflow file and submits it with an idempotency key, so that a resend is the same
 * job.
 */
import { randomBytes } from 'node:crypto';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { type PreparedJob, type SubmitOptions, preparedJob, buildJobRequest } from '../../client/submission.ts';
import { entryUrl } from '../../io/system/entry-url.ts';
import { openWorkflowFile } from '../../io/bundle/workflow-file.ts';
import type { JobRequest, SubmitReply } from '../../jobs/job-types.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import { type JobHttpClient, withoutSchemaVersion } from './job-client.ts';

export type SubmissionFlags = {
  readonly name?: string;
  readonly key?: string;
  readonly cores?: number;
  readonly vus?: number;
  readonly iterations?: number;
  readonly duration?: string;
  readonly priority?: number;
  readonly timeout?: string;
  readonly seed?: number;
  readonly env?: readonly string[];
  readonly set?: readonly string[];
  readonly dc?: string;
  readonly dcCount?: number;
};

export type ScheduleFlags = { readonly at?: string; readonly in?: string; readonly cron?: string };

export type PreparedSubmission = { readonly prepared: PreparedJob; readonly request: JobRequest };

const entries = {
  remuster: entryUrl(import.meta.url, '../../index').href,
  'remuster/client': entryUrl(import.meta.url, '../../client/index').href,
};

/** Everything that can be said before the cluster is asked. */
export async function prepareSubmission(
  file: string,
  flags: SubmissionFlags & ScheduleFlags,
): Promise<PreparedSubmission> {
  const options = optionsOf(flags);
  const prepared = preparedJob(await openWorkflowFile(file, entries, jobLimits.bundleBytesMax));
  return { prepared, request: buildJobRequest(prepared, options, `cli-${randomBytes(16).toString('hex')}`) };
}

/** The code goes along only if the managers do not have it. */
export async function submitPrepared(
  site: JobHttpClient,
  { prepared, request }: PreparedSubmission,
): Promise<SubmitReply> {
  try {
    return withoutSchemaVersion(await site.change('POST', '/v1/jobs', { request })) as SubmitReply;
  } catch (error) {
    if (!isRemusterError(error, 'UNKNOWN_BUNDLE')) throw error;
    const code = Buffer.from(prepared.code).toString('base64');
    return withoutSchemaVersion(await site.change('POST', '/v1/jobs', { request, code })) as SubmitReply;
  }
}

/** Jobs run in the datacenter of the node that is asked; other wishes are refused, not ignored. */
export async function checkDatacenter(site: JobHttpClient, { dc, dcCount }: SubmissionFlags): Promise<void> {
  if (dcCount !== undefined && dcCount !== 1)
    throw new RemusterError('BAD_ARGUMENT', 'a job runs in one datacenter: --dc-count takes 1');
  if (dc === undefined) return;
  const { dc: own } = (await site.get('/v1/node')) as { readonly dc: string };
  if (dc !== own)
    throw new RemusterError('BAD_ARGUMENT', `a job runs in the datacenter of the asked node, which is ${own}`);
}

function optionsOf(flags: SubmissionFlags & ScheduleFlags): SubmitOptions {
  const { name, key, cores, vus, iterations, duration, priority, timeout, seed, env, set, cron } = flags;
  const startAt = startOf(flags);
  const given = {
    ...{ name, idempotencyKey: key, cores, vus, iterations, priority, seed, cron, startAt },
    duration: duration === undefined ? undefined : durationOf('--duration', duration),
    timeoutMs: timeout === undefined ? undefined : durationOf('--timeout', timeout),
    env: env === undefined ? undefined : pairs('--env', env),
    set: set === undefined ? undefined : pairs('--set', set),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function startOf({ at, in: delay, cron }: ScheduleFlags): number | undefined {
  if ([at, delay, cron].filter((one) => one !== undefined).length > 1)
    throw new RemusterError('BAD_ARGUMENT', 'give one of --at, --in and --cron');
  if (delay !== undefined) return Date.now() + durationOf('--in', delay);
  if (at === undefined) return undefined;
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) throw new RemusterError('BAD_ARGUMENT', '--at takes a moment such as 2030-01-31T06:00:00Z');
  return ms;
}

function durationOf(flag: string, text: string): number {
  const ms = parseOptionDuration(text);
  if (ms === undefined || ms <= 0) throw new RemusterError('BAD_ARGUMENT', `${flag} takes a duration such as 30s`);
  return ms;
}

function pairs(flag: string, texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf('=');
      if (at < 1) throw new RemusterError('BAD_ARGUMENT', `${flag} takes KEY=VALUE, not ${JSON.stringify(text)}`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}
