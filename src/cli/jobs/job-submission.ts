/**
 * Bundles a workflow file and submits it, for `run` and `job submit`. A submission has an idempotency key, so a resend
 * is the same job.
 */
import { randomBytes } from 'node:crypto';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { type PreparedJob, type SubmitOptions, preparedJob, buildJobRequest } from '../../client/submission.ts';
import { entryUrl } from '../../io/system/entry-url.ts';
import { openWorkflowFile } from '../../io/bundle/workflow-file.ts';
import type { JobRequest, SubmitReply } from '../../jobs/job-types.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { parseDurationFlag } from '../command/command-flags.ts';
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

/** Validates and bundles everything before the first request to the cluster. */
export async function prepareSubmission(
  file: string,
  flags: SubmissionFlags & ScheduleFlags,
): Promise<PreparedSubmission> {
  const options = optionsOf(flags);
  const prepared = preparedJob(await openWorkflowFile(file, entries, jobLimits.bundleBytesMax));
  return { prepared, request: buildJobRequest(prepared, options, `cli-${randomBytes(16).toString('hex')}`) };
}

/** Submits without the code first: the managers may already have the bundle. */
export async function submitPrepared(
  client: JobHttpClient,
  { prepared, request }: PreparedSubmission,
): Promise<SubmitReply> {
  try {
    return withoutSchemaVersion(await client.change('POST', '/v1/jobs', { request })) as SubmitReply;
  } catch (error) {
    if (!isRemusterError(error, 'UNKNOWN_BUNDLE')) throw error;
    const code = Buffer.from(prepared.code).toString('base64');
    return withoutSchemaVersion(await client.change('POST', '/v1/jobs', { request, code })) as SubmitReply;
  }
}

/** A job runs in the datacenter of the node at --addr; --dc with another datacenter is refused, not ignored. */
export async function checkDatacenter(client: JobHttpClient, { dc, dcCount }: SubmissionFlags): Promise<void> {
  if (dcCount !== undefined && dcCount !== 1)
    throw new RemusterError('BAD_ARGUMENT', `a job runs in one datacenter: --dc-count must be 1, not ${dcCount}`);
  if (dc === undefined) return;
  const { dc: own } = (await client.get('/v1/node')) as { readonly dc: string };
  if (dc !== own)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `a job runs in the datacenter of the node at --addr, which is ${own}, not ${dc}`,
    );
}

function optionsOf(flags: SubmissionFlags & ScheduleFlags): SubmitOptions {
  const { name, key, cores, vus, iterations, duration, priority, timeout, seed, env, set, cron } = flags;
  const startAt = startOf(flags);
  const given = {
    ...{ name, idempotencyKey: key, cores, vus, iterations, priority, seed, cron, startAt },
    duration: duration === undefined ? undefined : parseDurationFlag('--duration', duration),
    timeoutMs: timeout === undefined ? undefined : parseDurationFlag('--timeout', timeout),
    env: env === undefined ? undefined : pairs('--env', env),
    set: set === undefined ? undefined : pairs('--set', set),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function startOf({ at, in: delay, cron, key }: ScheduleFlags & Pick<SubmissionFlags, 'key'>): number | undefined {
  if ([at, delay, cron].filter((one) => one !== undefined).length > 1)
    throw new RemusterError('BAD_ARGUMENT', 'give only one of --at, --in and --cron');
  if (cron !== undefined && key === undefined)
    throw new RemusterError('BAD_ARGUMENT', 'a schedule needs a name: add --key NAME');
  if (delay !== undefined) return Date.now() + parseDurationFlag('--in', delay);
  if (at === undefined) return undefined;
  const ms = Date.parse(at);
  if (Number.isNaN(ms))
    throw new RemusterError(
      'BAD_ARGUMENT',
      `--at takes a time such as 2030-01-31T06:00:00Z, not ${JSON.stringify(at)}`,
    );
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
