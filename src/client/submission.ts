/** Builds and validates a job request from a bundle and options. Sends nothing. */
import { RemusterError } from '../base/errors.ts';
import type { JobRequest } from '../jobs/job-types.ts';
import { jobLimits } from '../jobs/limits.ts';
import type { WorkflowFacts } from '../jobs/workflow-facts.ts';
import { type FactsOverrides, deriveFacts, exportedWorkflows } from '../runner/definition/fact-derivation.ts';
import { parseDurationMs } from '../runner/definition/amounts.ts';

/** Load tests at least this long get a job timeout of their own. */
const longLoadMs = 1_800_000;
const timeoutGraceMs = 3_600_000;

/** Code as one file, and its exports. */
export type WorkflowBundle = { readonly sha256: string; readonly code: Uint8Array; readonly exports: object };

/** Bundles a file with all its imports, and imports the bundle. */
export type WorkflowBundler = (file: string) => Promise<WorkflowBundle>;

/** Numbers that override those of the workflow definitions. */
export type WorkflowOverrides = Omit<FactsOverrides, 'durationMs'> & {
  /** Duration of load tests: milliseconds, or text such as '30s'. */
  readonly duration?: number | string;
};

/** A bundle that can be submitted any number of times. */
export type PreparedJob = {
  readonly sha256: string;
  readonly code: Uint8Array;
  facts(overrides: WorkflowOverrides): readonly WorkflowFacts[];
};

export type SubmitOptions = WorkflowOverrides & {
  /** Display name; that of the first workflow if left out. */
  readonly name?: string;
  /** The same key and content is the same job, also from another session; other content is PRECONDITION. */
  readonly idempotencyKey?: string;
  /** The values of `ctx.env`. */
  readonly env?: Readonly<Record<string, string>>;
  /** 0 to 9; higher first. */
  readonly priority?: number;
  /** Timeout of the whole job, from its submission or start time on. */
  readonly timeoutMs?: number;
  /** Earliest start: a date, or milliseconds since 1970. */
  readonly startAt?: Date | number;
  /** Five fields, UTC: creates a schedule whose name is the idempotencyKey. */
  readonly cron?: string;
  /** The seed of `ctx.random`; drawn by the managers if left out. */
  readonly seed?: number;
};

/** Throws BAD_ARGUMENT if the bundle exports no workflow. */
export function preparedJob({ sha256, code, exports }: WorkflowBundle): PreparedJob {
  const definitions = exportedWorkflows(exports);
  const defaults = definitions.map((definition) => deriveFacts(definition));
  return {
    sha256,
    code,
    facts: ({ duration, ...rest }) => {
      if (duration === undefined && Object.keys(rest).length === 0) return defaults;
      const overrides = duration === undefined ? rest : { ...rest, durationMs: durationOf(duration) };
      return definitions.map((definition) => deriveFacts(definition, overrides));
    },
  };
}

function durationOf(duration: number | string): number {
  const ms = parseDurationMs(duration);
  if (ms !== undefined) return ms;
  throw new RemusterError(
    'BAD_ARGUMENT',
    `duration must be milliseconds or text such as 30s, not ${JSON.stringify(duration)}`,
  );
}

/** Without a key of the caller `ownKey` is used, so that a resent request is one job. */
export function buildJobRequest(prepared: PreparedJob, options: SubmitOptions, ownKey: string): JobRequest {
  return { ...jobContent(prepared, options), idempotencyKey: options.idempotencyKey ?? ownKey };
}

const encodedDefaults = new WeakMap<PreparedJob, string>();

/** The request as JSON without its key: equal for all jobs with the same options, so that of the defaults is kept. */
export function encodeJobRequest(prepared: PreparedJob, options: SubmitOptions): string {
  for (const _ in options) return JSON.stringify(jobContent(prepared, options));
  const encoded = encodedDefaults.get(prepared) ?? JSON.stringify(jobContent(prepared, options));
  encodedDefaults.set(prepared, encoded);
  return encoded;
}

function jobContent(prepared: PreparedJob, options: SubmitOptions): JobRequest {
  const { name, idempotencyKey, env, priority, timeoutMs, startAt, cron, seed, ...overrides } = options;
  if (cron !== undefined && idempotencyKey === undefined)
    throw new RemusterError('BAD_ARGUMENT', 'a schedule needs a name: give cron and an idempotencyKey');
  if (env !== undefined) checkEnv(env);
  const workflows = prepared.facts(overrides);
  return {
    ...(name === undefined ? {} : { name }),
    bundle: prepared.sha256,
    workflows,
    ...(env === undefined ? {} : { env }),
    ...(priority === undefined ? {} : { priority }),
    ...timeoutOf(timeoutMs, workflows),
    ...(startAt === undefined ? {} : { startAtMs: momentOf(startAt) }),
    ...(cron === undefined ? {} : { cron }),
    ...(seed === undefined ? {} : { seed }),
  };
}

/** The default timeout of jobs must not cut off a longer load test. */
function timeoutOf(timeoutMs: number | undefined, workflows: readonly WorkflowFacts[]): Pick<JobRequest, 'timeoutMs'> {
  if (timeoutMs !== undefined) return { timeoutMs };
  const durationMs = workflows.reduce((sum, { load }) => sum + (load?.durationMs ?? 0), 0);
  if (durationMs < longLoadMs) return {};
  return { timeoutMs: Math.min(jobLimits.timeoutMsMax, durationMs + timeoutGraceMs) };
}

function checkEnv(env: Readonly<Record<string, string>>): void {
  let characters = 0;
  for (const [key, value] of Object.entries(env)) {
    if (typeof value !== 'string')
      throw new RemusterError('BAD_ARGUMENT', `env ${key} must be text, not ${typeof value}`);
    characters += key.length + value.length;
  }
  if (characters > jobLimits.envBytesMax)
    throw new RemusterError('TOO_LARGE', `env has more than ${jobLimits.envBytesMax} characters`, 'no');
}

function momentOf(startAt: Date | number): number {
  const ms = typeof startAt === 'number' ? startAt : startAt.getTime();
  if (Number.isFinite(ms)) return Math.round(ms);
  throw new RemusterError('BAD_ARGUMENT', 'startAt must be a valid date or a number of milliseconds');
}
