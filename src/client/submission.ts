/** Builds a job request from a bundle and options, and validates it before anything is sent. */
import { RemusterError } from '../base/errors.ts';
import type { JobRequest } from '../jobs/job-types.ts';
import { jobLimits } from '../jobs/limits.ts';
import type { WorkflowFacts } from '../jobs/workflow-facts.ts';
import { type FactsOverrides, deriveFacts, exportedWorkflows } from '../runner/definition/fact-derivation.ts';
import { parseDurationMs } from '../runner/definition/amounts.ts';

const longMs = 1_800_000;
const graceMs = 3_600_000;

/** Code in one piece, and what it exports. */
export type WorkflowBundle = { readonly sha256: string; readonly code: Uint8Array; readonly exports: object };

/** Makes one file of a file and all that it imports, and imports it. */
export type WorkflowBundler = (file: string) => Promise<WorkflowBundle>;

/** Numbers of workflows that are to be others than in the file. */
export type WorkflowOverrides = Omit<FactsOverrides, 'durationMs'> & {
  /** Of load tests: milliseconds, or text such as '30s'. */
  readonly duration?: number | string;
};

/** Code that is ready to be submitted, as often as wanted. */
export type PreparedJob = {
  readonly sha256: string;
  readonly code: Uint8Array;
  facts(overrides: WorkflowOverrides): readonly WorkflowFacts[];
};

export type SubmitOptions = WorkflowOverrides & {
  /** For people; by default that of the first workflow. */
  readonly name?: string;
  /** The same key with the same content is the same job, also for another session; with other content: PRECONDITION. */
  readonly idempotencyKey?: string;
  /** For `ctx.env`. */
  readonly env?: Readonly<Record<string, string>>;
  /** 0 to 9; higher ones go first. */
  readonly priority?: number;
  /** Of the whole job, from its submission or start time on. */
  readonly timeoutMs?: number;
  /** Not before. */
  readonly startAt?: Date | number;
  /** Five fields, UTC: makes a schedule that is called like the idempotencyKey. */
  readonly cron?: string;
  /** For `ctx.random`; without it the managers draw one. */
  readonly seed?: number;
};

/** BAD_ARGUMENT when it exports no workflow. */
export function preparedJob({ sha256, code, exports }: WorkflowBundle): PreparedJob {
  const definitions = exportedWorkflows(exports);
  const plain = definitions.map((definition) => deriveFacts(definition));
  return {
    sha256,
    code,
    facts: ({ duration, ...rest }) => {
      if (duration === undefined && Object.keys(rest).length === 0) return plain;
      const given = duration === undefined ? rest : { ...rest, durationMs: durationOf(duration) };
      return definitions.map((definition) => deriveFacts(definition, given));
    },
  };
}

function durationOf(duration: number | string): number {
  const ms = parseDurationMs(duration);
  if (ms !== undefined) return ms;
  throw new RemusterError('BAD_ARGUMENT', 'duration is a number of milliseconds, or text such as 30s');
}

/** `ownKey` is used when the caller has none, so that a request that is sent again is one job. */
export function buildJobRequest(prepared: PreparedJob, options: SubmitOptions, ownKey: string): JobRequest {
  return { ...jobContent(prepared, options), idempotencyKey: options.idempotencyKey ?? ownKey };
}

const encodedDefaults = new WeakMap<PreparedJob, string>();

/** JSON of what is to be done, without the key: the same for all jobs that are submitted with the same options. */
export function encodeJobRequest(prepared: PreparedJob, options: SubmitOptions): string {
  for (const _ in options) return JSON.stringify(jobContent(prepared, options));
  const words = encodedDefaults.get(prepared) ?? JSON.stringify(jobContent(prepared, options));
  encodedDefaults.set(prepared, words);
  return words;
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

/** The time that jobs have by default is not meant to cut off a load test that is to last longer. */
function timeoutOf(timeoutMs: number | undefined, workflows: readonly WorkflowFacts[]): Pick<JobRequest, 'timeoutMs'> {
  if (timeoutMs !== undefined) return { timeoutMs };
  const lastsMs = workflows.reduce((sum, { load }) => sum + (load?.durationMs ?? 0), 0);
  return lastsMs < longMs ? {} : { timeoutMs: Math.min(jobLimits.timeoutMsMax, lastsMs + graceMs) };
}

function checkEnv(env: Readonly<Record<string, string>>): void {
  let characters = 0;
  for (const [key, value] of Object.entries(env)) {
    if (typeof value !== 'string') throw new RemusterError('BAD_ARGUMENT', `env ${key} is a text`);
    characters += key.length + value.length;
  }
  if (characters > jobLimits.envBytesMax)
    throw new RemusterError('TOO_LARGE', `env has more than ${jobLimits.envBytesMax} characters`, 'no');
}

function momentOf(startAt: Date | number): number {
  const ms = typeof startAt === 'number' ? startAt : startAt.getTime();
  if (Number.isFinite(ms)) return Math.round(ms);
  throw new RemusterError('BAD_ARGUMENT', 'startAt is a date or a number of milliseconds');
}
