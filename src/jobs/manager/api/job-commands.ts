/**
 * Executes client commands on jobs (submit, list, watch, cancel ...). Replies only with recorded facts. An invalid
 * command changes nothing.
 */
import { unreachable } from '../../../base/assert.ts';
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../../base/errors.ts';
import type { JobVerb } from '../../../messages/jobs.ts';
import { type JobView, type JobStatus, isTerminalStatus, jobStatuses } from '../../job-types.ts';
import { jobLimits } from '../../limits.ts';
import type { ResultQuery, ResultVerb, ManagerInput } from '../state/manager-io.ts';
import {
  type JsonFields,
  badArgument,
  bytesOf,
  checkText,
  checkOptionalInteger,
  parseJsonObject,
} from '../submission/field-checks.ts';
import type { JobLifecycle } from '../dispatch/job-lifecycle.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import { createJob } from '../submission/job-factory.ts';
import { type ManagedJob, firstJobVersion } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import { QueuePositions } from './queue-positions.ts';
import { liveLatencies } from './job-report.ts';
import { idempotencyKeyLengthMax } from '../submission/request-validation.ts';
import type { ValidatedRequest } from '../submission/request-cache.ts';
import type { Schedules } from './schedules.ts';
import { jobOutcomeOf, jobProgressOf, jobRowOf, jobViewOf } from './job-views.ts';
import { JobWatchers } from './job-watchers.ts';

type JobCommand = Pick<
  Extract<ManagerInput, { readonly kind: 'command' }>,
  'verb' | 'argumentsJson' | 'submitter' | 'remainingMs' | 'waitMs' | 'idempotencyKey'
>;
type OtherCommand = Omit<JobCommand, 'argumentsJson' | 'verb' | 'waitMs' | 'idempotencyKey'> & {
  readonly call: number;
  readonly verb: Exclude<JobVerb, 'submit'>;
};

export type JobCommandPorts = {
  readonly dc: string;
  readonly sha256: (bytes: Uint8Array) => string;
  /** Calls back with true if that bundle is stored. */
  readonly knowsBundle: (sha256: string, done: (outcome: Outcome<boolean>) => void) => void;
  /** Reads the results that are stored out of line and replies to the call. */
  readonly readResult: (call: number, verb: ResultVerb, job: ManagedJob, query: ResultQuery) => void;
};

export const jobListMax = 1_000;
const waitMsMax = 60_000;
/** A caller that waits gets its reply this long before its own timeout. */
const marginMs = 300;
const encoder = new TextEncoder();

export class JobCommands {
  readonly #state: ManagerState;
  readonly #ports: JobCommandPorts;
  readonly #dispatcher: Dispatcher;
  readonly #lifecycle: JobLifecycle;
  readonly #schedules: Schedules;
  readonly watchers = new JobWatchers();
  readonly #positions: QueuePositions;
  #lastJobNumber = 0;

  constructor(
    state: ManagerState,
    ports: JobCommandPorts,
    parts: { dispatcher: Dispatcher; lifecycle: JobLifecycle; schedules: Schedules },
  ) {
    this.#state = state;
    this.#ports = ports;
    this.#dispatcher = parts.dispatcher;
    this.#lifecycle = parts.lifecycle;
    this.#schedules = parts.schedules;
    this.#positions = new QueuePositions(state);
  }

  execute(call: number, command: JobCommand, reply: Done<string>): void {
    const { verb, argumentsJson, submitter, remainingMs, waitMs } = command;
    try {
      if (submitter === '' || !submitter.isWellFormed() || bytesOf(submitter) > 256)
        throw badArgument('the name of the submitter must have 1 to 256 bytes');
      const untilMs = this.#state.nowMs + Math.min(waitMs, remainingMs - marginMs);
      if (verb === 'submit') this.#submit(command, reply, waitMs === 0 ? undefined : untilMs);
      else
        this.#executeOther(
          { call, verb, submitter, remainingMs },
          parseJsonObject(argumentsJson === '' ? '{}' : argumentsJson),
          reply,
        );
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      reply({ ok: false, error });
    }
  }

  /** With `untilMs` the reply waits for the end of the job, at the latest until then. */
  #submit(command: JobCommand, reply: Done<string>, untilMs: number | undefined): void {
    const { argumentsJson, submitter } = command;
    const checked = this.#state.requests.validate(argumentsJson);
    const { bundle, cron } = checked.request;
    const key = this.#keyOf(command, checked);
    const isKnown = (): boolean => key !== undefined && this.#replyIfKnown(key, checked, reply, untilMs);
    if (cron === undefined && isKnown()) return;
    this.#ports.knowsBundle(bundle, (known) => {
      if (!known.ok) return reply(known);
      if (!known.value)
        return reply(
          failure('UNKNOWN_BUNDLE', `no bundle with the hash ${bundle} is stored: store it before you submit`),
        );
      try {
        if (cron !== undefined) this.#schedules.add(checked.request, argumentsJson, submitter, reply);
        else if (!isKnown()) this.#create(checked, submitter, key, reply, untilMs);
      } catch (error) {
        if (!isRemusterError(error)) throw error;
        reply({ ok: false, error });
      }
    });
  }

  /** Each firing of a schedule is a job of its own. Undefined if the job store is full. */
  submitScheduled(requestJson: string, submitter: string): ManagedJob | undefined {
    try {
      const { requests } = this.#state;
      const { cron: _cron, idempotencyKey: _key, ...request } = requests.validate(requestJson).request;
      return this.#create(requests.validate(JSON.stringify(request)), submitter, undefined, () => {});
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      return undefined;
    }
  }

  /** Keys of different submitters are different keys. */
  #keyOf({ idempotencyKey: key, submitter }: JobCommand, { request }: ValidatedRequest): string | undefined {
    if (key !== undefined && request.idempotencyKey !== undefined)
      throw badArgument('the request and the command both have an idempotencyKey: give one');
    const name =
      request.idempotencyKey ??
      (key === undefined ? undefined : checkText(key, 'idempotencyKey', idempotencyKeyLengthMax));
    return name === undefined ? undefined : this.#ports.sha256(encoder.encode(`${submitter}\0${name}`));
  }

  queuePosition(job: ManagedJob): JobView['queue'] {
    if (job.recordedStatus !== 'QUEUED' && job.recordedStatus !== 'SUBMITTED') return null;
    const waits = job.startAtMs !== undefined && job.status === 'SUBMITTED';
    const workflow = job.workflows.find((one) => one.waiting.length > 0);
    const reason = waits
      ? 'waits for its start time'
      : workflow === undefined
        ? ''
        : this.#dispatcher.waitReason(workflow);
    return { position: this.#positions.of(job), reason };
  }

  #replyIfKnown(key: string, checked: ValidatedRequest, reply: Done<string>, untilMs: number | undefined): boolean {
    const job = this.#state.jobs.byIdempotencyKey(key);
    if (job === undefined) return false;
    if (job.hash !== checked.hash()) {
      reply(
        failure(
          'PRECONDITION',
          `the idempotency key was used for job ${job.id} with other content: use another key`,
          'no',
        ),
      );
      return true;
    }
    this.#state.commits.onceJobCommitted(job, () => this.#acknowledge(job, false, reply, untilMs));
    return true;
  }

  /** The job is recorded. A caller that waits for the end gets its reply then, unless too many callers wait. */
  #acknowledge(job: ManagedJob, isNew: boolean, reply: Done<string>, untilMs: number | undefined): void {
    if (untilMs === undefined || this.watchers.isFull) return reply(submitReply(job, isNew));
    this.#awaitEnd(job, untilMs, reply);
  }

  #create(
    checked: ValidatedRequest,
    submitter: string,
    key: string | undefined,
    reply: Done<string>,
    untilMs?: number,
  ): ManagedJob {
    const { jobs, commits, managerClockMs, wallMs, term, random, nowMs } = this.#state;
    const { json: requestJson, request } = checked;
    jobs.checkCapacity(submitter, requestJson.length);
    this.#lastJobNumber += 1;
    const id = `j${term.toString(36).padStart(5, '0')}${this.#lastJobNumber.toString(36).padStart(6, '0')}`;
    const seed = request.seed ?? random.uint32();
    const hash = key === undefined ? undefined : checked.hash();
    const fields = {
      id,
      submitter,
      submittedWallMs: wallMs,
      submittedMs: managerClockMs,
      seed,
      key,
      hash,
      requestJson,
    };
    const job = createJob(fields, checked, nowMs);
    job.version = firstJobVersion(term);
    jobs.add(job);
    if (job.startAtMs === undefined || job.startAtMs <= wallMs) this.#lifecycle.begin(job);
    commits.markJobThen(job, () => this.#acknowledge(job, true, reply, untilMs));
    return job;
  }

  #executeOther(command: OtherCommand, fields: JsonFields, reply: Done<string>): void {
    const { call, verb, submitter, remainingMs } = command;
    switch (verb) {
      case 'list':
        return reply(success(JSON.stringify({ items: this.#list(fields), open: this.#openCount() })));
      case 'show':
        return this.#show(this.#findJob(fields), reply);
      case 'watch':
        if (fields['end'] === true)
          return this.#awaitEnd(this.#findJob(fields), this.#untilMs(fields, remainingMs), reply);
        return this.#watch(this.#findJob(fields), fields, remainingMs, reply);
      case 'cancel':
        return this.#cancel(this.#findJob(fields), reply);
      case 'explain':
        return reply(success(JSON.stringify({ lines: this.#explain(this.#findJob(fields)) })));
      case 'report':
      case 'result':
      case 'failures':
        return this.#readResult(call, verb, this.#findJob(fields), fields);
      case 'schedules':
        return reply(success(JSON.stringify({ items: this.#schedules.list() })));
      case 'unschedule':
        return this.#schedules.remove(checkText(fields['name'], 'name', 256), submitter, reply);
      default:
        return unreachable(verb);
    }
  }

  #findJob(fields: JsonFields): ManagedJob {
    const id = checkText(fields['jobId'], 'jobId', 64);
    const job = this.#state.jobs.get(id);
    // A job that is not recorded yet does not exist for clients.
    if (job === undefined || !job.isRecorded)
      throw new RemusterError('UNKNOWN_JOB', `there is no job ${JSON.stringify(id)}`);
    return job;
  }

  #list(fields: JsonFields): readonly unknown[] {
    const limit = checkOptionalInteger(fields['limit'], 'limit', 1, jobListMax) ?? 100;
    const { status } = fields;
    if (status !== undefined && !jobStatuses.includes(status as JobStatus))
      throw badArgument(`there is no status ${JSON.stringify(status)}: use one of ${jobStatuses.join(', ')}`);
    const jobs = [...this.#state.jobs.values()].toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const matching = jobs.filter((job) => job.isRecorded && (status === undefined || job.recordedStatus === status));
    return matching.slice(0, limit).map(jobRowOf);
  }

  #openCount(): number {
    let count = 0;
    for (const { isRecorded } of this.#state.jobs.open) if (isRecorded) count += 1;
    return count;
  }

  #show(job: ManagedJob, reply: Done<string>): void {
    const { commits, options } = this.#state;
    commits.onceJobCommitted(job, () => {
      reply(success(JSON.stringify(jobViewOf(job, this.#viewContext(job), options.jobTimeoutMs))));
    });
  }

  #watch(job: ManagedJob, fields: JsonFields, remainingMs: number, reply: Done<string>): void {
    const { commits } = this.#state;
    const afterVersion = checkOptionalInteger(fields['afterVersion'], 'afterVersion', 0, Number.MAX_SAFE_INTEGER) ?? 0;
    this.watchers.wait(job, afterVersion, this.#untilMs(fields, remainingMs), () => {
      commits.onceJobCommitted(job, () => {
        reply(success(JSON.stringify(jobProgressOf(job, this.#viewContext(job), liveLatencies(job)))));
      });
    });
  }

  /** Replies with the outcome only, not with the full state. */
  #awaitEnd(job: ManagedJob, untilMs: number, reply: Done<string>): void {
    const replyWithOutcome = (): void =>
      this.#state.commits.onceJobCommitted(job, () => reply(success(JSON.stringify(jobOutcomeOf(job)))));
    if (isTerminalStatus(job.recordedStatus)) replyWithOutcome();
    else this.watchers.wait(job, Infinity, untilMs, replyWithOutcome);
  }

  #untilMs(fields: JsonFields, remainingMs: number): number {
    const waitMs = checkOptionalInteger(fields['waitMs'], 'waitMs', 0, waitMsMax) ?? 0;
    return this.#state.nowMs + Math.max(0, Math.min(waitMs, remainingMs - marginMs));
  }

  #cancel(job: ManagedJob, reply: Done<string>): void {
    this.#lifecycle.cancel(job);
    this.#state.commits.onceJobCommitted(job, () =>
      reply(success(JSON.stringify({ jobId: job.id, status: job.recordedStatus }))),
    );
  }

  #explain(job: ManagedJob): readonly string[] {
    const lines = [`${job.id} is ${job.recordedStatus}`];
    if (isTerminalStatus(job.status)) return job.errorMessage === undefined ? lines : [...lines, job.errorMessage];
    const { selector, nowMs } = this.#state;
    for (const workflow of job.workflows) {
      const { facts, waiting, units, done, active, status } = workflow;
      lines.push(`${facts.name}: ${status}, ${done} of ${units.length} units done, ${active} assigned to workers`);
      const unit = waiting.at(-1);
      if (unit === undefined) continue;
      lines.push(`${facts.name} waits: ${this.#dispatcher.waitReason(workflow)}`);
      lines.push(...selector.explain(unit, nowMs));
    }
    return lines;
  }

  #readResult(call: number, verb: ResultVerb, job: ManagedJob, fields: JsonFields): void {
    const workflow =
      fields['workflow'] === undefined ? undefined : checkText(fields['workflow'], 'workflow', jobLimits.nameLengthMax);
    const part = checkOptionalInteger(fields['part'], 'part', 0, 10_000);
    if (!isTerminalStatus(job.recordedStatus))
      throw new RemusterError(
        'PRECONDITION',
        `job ${job.id} has not ended, it is ${job.recordedStatus}: wait for its end`,
        'no',
      );
    if (workflow !== undefined && !job.workflows.some(({ facts }) => facts.name === workflow))
      throw badArgument(`job ${job.id} has no workflow ${JSON.stringify(workflow)}`);
    this.#ports.readResult(call, verb, job, { workflow, part, oneByOne: fields['oneByOne'] === true });
  }

  #viewContext(job: ManagedJob): Parameters<typeof jobViewOf>[1] {
    const { nowMs, managerClockMs } = this.#state;
    return { nowMs, managerClockMs, dc: this.#ports.dc, queue: this.queuePosition(job) };
  }
}

function submitReply(job: ManagedJob, isNew: boolean): Outcome<string> {
  // Built by hand, because it is frequent: no value has a character that JSON escapes.
  return success(`{"jobId":"${job.id}","status":"${job.recordedStatus}","isNew":${isNew}}`);
}
