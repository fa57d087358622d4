/**
 * Executes client commands on jobs (submit, list, watch, cancel ...). Replies only with recorded facts. An invalid
 * command changes nothing.
 */
import { unreachable } from '../../../base/assert.ts';
import { type Outcome, RemusterError, failure, isRemusterError, success } from '../../../base/errors.ts';
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
import type { ManagedJob } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import { QueuePositions } from './queue-positions.ts';
import { liveLatencies } from './job-report.ts';
import { idempotencyKeyLengthMax } from '../submission/request-validation.ts';
import type { ValidatedRequest } from '../submission/request-cache.ts';
import type { Schedules } from './schedules.ts';
import { jobOutcomeOf, jobProgressOf, jobRowOf, jobViewOf } from './job-views.ts';
import { JobWatchers } from './job-watchers.ts';

type Answer = (outcome: Outcome<string>) => void;
type Order = Pick<
  Extract<ManagerInput, { readonly kind: 'order' }>,
  'verb' | 'argumentsJson' | 'submitter' | 'remainingMs' | 'waitMs' | 'key'
>;
type Other = Omit<Order, 'argumentsJson' | 'verb' | 'waitMs' | 'key'> & {
  readonly call: number;
  readonly verb: Exclude<JobVerb, 'submit'>;
};

export type JobCommandPorts = {
  readonly dc: string;
  readonly sha256: (bytes: Uint8Array) => string;
  /** Calls back with whether that code is stored. */
  readonly knowsBundle: (sha256: string, done: (outcome: Outcome<boolean>) => void) => void;
  /** Reads what lies apart, and answers. */
  readonly gather: (call: number, verb: ResultVerb, job: ManagedJob, words: ResultQuery) => void;
};

const listMax = 1_000;
const waitMsMax = 60_000;
/** Whoever waits gets its answer before it gives up. */
const marginMs = 300;
const encoder = new TextEncoder();

export class JobCommands {
  readonly #office: ManagerState;
  readonly #ports: JobCommandPorts;
  readonly #giving: Dispatcher;
  readonly #flow: JobLifecycle;
  readonly #schedules: Schedules;
  readonly watching = new JobWatchers();
  readonly #positions: QueuePositions;
  #lastJob = 0;

  constructor(
    office: ManagerState,
    ports: JobCommandPorts,
    parts: { giving: Dispatcher; flow: JobLifecycle; schedules: Schedules },
  ) {
    this.#office = office;
    this.#ports = ports;
    this.#giving = parts.giving;
    this.#flow = parts.flow;
    this.#schedules = parts.schedules;
    this.#positions = new QueuePositions(office);
  }

  execute(call: number, order: Order, answer: Answer): void {
    const { verb, argumentsJson, submitter, remainingMs, waitMs } = order;
    try {
      if (submitter === '' || !submitter.isWellFormed() || bytesOf(submitter) > 256)
        throw badArgument('the submitter has no name, or one too long');
      const untilMs = this.#office.nowMs + Math.min(waitMs, remainingMs - marginMs);
      if (verb === 'submit') this.#submit(order, answer, waitMs === 0 ? undefined : untilMs);
      else
        this.#other(
          { call, verb, submitter, remainingMs },
          parseJsonObject(argumentsJson === '' ? '{}' : argumentsJson),
          answer,
        );
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      answer({ ok: false, error });
    }
  }

  /** With `untilMs` the answer waits for the end of the job, until then. */
  #submit(order: Order, answer: Answer, untilMs: number | undefined): void {
    const { argumentsJson, submitter } = order;
    const checked = this.#office.requests.validate(argumentsJson);
    const { bundle, cron } = checked.request;
    const key = this.#keyOf(order, checked);
    const isKnown = (): boolean => key !== undefined && this.#again(key, checked, answer, untilMs);
    if (cron === undefined && isKnown()) return;
    this.#ports.knowsBundle(bundle, (known) => {
      if (!known.ok) return answer(known);
      if (!known.value) return answer(failure('UNKNOWN_BUNDLE', `no code with the hash ${bundle} is stored`));
      try {
        if (cron !== undefined) this.#schedules.add(checked.request, argumentsJson, submitter, answer);
        else if (!isKnown()) this.#make(checked, submitter, key, answer, untilMs);
      } catch (error) {
        if (!isRemusterError(error)) throw error;
        answer({ ok: false, error });
      }
    });
  }

  /** For a schedule: each firing is a job of its own. Undefined if there is no room. */
  submitScheduled(words: string, submitter: string): ManagedJob | undefined {
    try {
      const { requests } = this.#office;
      const { cron: _cron, idempotencyKey: _key, ...request } = requests.validate(words).request;
      return this.#make(requests.validate(JSON.stringify(request)), submitter, undefined, () => {});
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      return undefined;
    }
  }

  /** Keys of different submitters are different keys. */
  #keyOf({ key, submitter }: Order, { request }: ValidatedRequest): string | undefined {
    if (key !== undefined && request.idempotencyKey !== undefined) throw badArgument('there are two idempotencyKeys');
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
      ? 'its start time has not come'
      : workflow === undefined
        ? ''
        : this.#giving.waitReason(workflow);
    return { position: this.#positions.of(job), reason };
  }

  #again(key: string, checked: ValidatedRequest, answer: Answer, untilMs: number | undefined): boolean {
    const job = this.#office.jobs.byIdempotencyKey(key);
    if (job === undefined) return false;
    if (job.hash !== checked.hash()) {
      answer(
        failure('PRECONDITION', `the idempotency key was used before, with other content, for job ${job.id}`, 'no'),
      );
      return true;
    }
    this.#office.commits.onceJobCommitted(job, () => this.#acknowledge(job, false, answer, untilMs));
    return true;
  }

  /** It is recorded. Whoever wants to wait for the end is told then, unless too many wait already. */
  #acknowledge(job: ManagedJob, isNew: boolean, answer: Answer, untilMs: number | undefined): void {
    if (untilMs === undefined || this.watching.isFull) return answer(submitted(job, isNew));
    this.#awaitEnd(job, untilMs, answer);
  }

  #make(
    checked: ValidatedRequest,
    submitter: string,
    key: string | undefined,
    answer: Answer,
    untilMs?: number,
  ): ManagedJob {
    const { jobs, commits, managerClockMs, wallMs, term, random, nowMs } = this.#office;
    const { json: requestJson, request } = checked;
    jobs.checkCapacity(submitter, requestJson.length);
    this.#lastJob += 1;
    const id = `j${term.toString(36).padStart(5, '0')}${this.#lastJob.toString(36).padStart(6, '0')}`;
    const seed = request.seed ?? random.uint32();
    const hash = key === undefined ? undefined : checked.hash();
    const birth = { id, submitter, submittedWallMs: wallMs, submittedMs: managerClockMs, seed, key, hash, requestJson };
    const job = createJob(birth, checked, nowMs);
    job.version = JobWatchers.firstVersion(term);
    jobs.add(job);
    if (job.startAtMs === undefined || job.startAtMs <= wallMs) this.#flow.begin(job);
    commits.markJobThen(job, () => this.#acknowledge(job, true, answer, untilMs));
    return job;
  }

  #other(order: Other, fields: JsonFields, answer: Answer): void {
    const { call, verb, submitter, remainingMs } = order;
    switch (verb) {
      case 'list':
        return answer(success(JSON.stringify({ items: this.#list(fields), open: this.#openCount() })));
      case 'show':
        return this.#show(this.#job(fields), answer);
      case 'watch':
        if (fields['end'] === true)
          return this.#awaitEnd(this.#job(fields), this.#untilMs(fields, remainingMs), answer);
        return this.#watch(this.#job(fields), fields, remainingMs, answer);
      case 'cancel':
        return this.#cancel(this.#job(fields), answer);
      case 'explain':
        return answer(success(JSON.stringify({ lines: this.#explain(this.#job(fields)) })));
      case 'report':
      case 'result':
      case 'failures':
        return this.#gather(call, verb, this.#job(fields), fields);
      case 'schedules':
        return answer(success(JSON.stringify({ items: this.#schedules.list() })));
      case 'unschedule':
        return this.#schedules.remove(checkText(fields['name'], 'name', 256), submitter, answer);
      default:
        return unreachable(verb);
    }
  }

  #job(fields: JsonFields): ManagedJob {
    const id = checkText(fields['jobId'], 'jobId', 64);
    const job = this.#office.jobs.get(id);
    // A job that is not recorded yet is not there for anybody.
    if (job === undefined || !job.isRecorded)
      throw new RemusterError('UNKNOWN_JOB', `there is no job ${JSON.stringify(id)}`);
    return job;
  }

  #list(fields: JsonFields): readonly unknown[] {
    const limit = checkOptionalInteger(fields['limit'], 'limit', 1, listMax) ?? 100;
    const { status } = fields;
    if (status !== undefined && !jobStatuses.includes(status as JobStatus))
      throw badArgument('status is no status of a job');
    const jobs = [...this.#office.jobs.values()].toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const wanted = jobs.filter((job) => job.isRecorded && (status === undefined || job.recordedStatus === status));
    return wanted.slice(0, limit).map(jobRowOf);
  }

  #openCount(): number {
    let count = 0;
    for (const { isRecorded } of this.#office.jobs.open) if (isRecorded) count += 1;
    return count;
  }

  #show(job: ManagedJob, answer: Answer): void {
    const { commits, options } = this.#office;
    commits.onceJobCommitted(job, () => {
      answer(success(JSON.stringify(jobViewOf(job, this.#parts(job), options.jobTimeoutMs))));
    });
  }

  #watch(job: ManagedJob, fields: JsonFields, remainingMs: number, answer: Answer): void {
    const { commits } = this.#office;
    const afterVersion = checkOptionalInteger(fields['afterVersion'], 'afterVersion', 0, Number.MAX_SAFE_INTEGER) ?? 0;
    this.watching.wait(job, afterVersion, this.#untilMs(fields, remainingMs), () => {
      commits.onceJobCommitted(job, () => {
        answer(success(JSON.stringify(jobProgressOf(job, this.#parts(job), liveLatencies(job)))));
      });
    });
  }

  /** For those who want nothing but the end: a few words instead of everything. */
  #awaitEnd(job: ManagedJob, untilMs: number, answer: Answer): void {
    const tell = (): void =>
      this.#office.commits.onceJobCommitted(job, () => answer(success(JSON.stringify(jobOutcomeOf(job)))));
    if (isTerminalStatus(job.recordedStatus)) tell();
    else this.watching.wait(job, Infinity, untilMs, tell);
  }

  #untilMs(fields: JsonFields, remainingMs: number): number {
    const waitMs = checkOptionalInteger(fields['waitMs'], 'waitMs', 0, waitMsMax) ?? 0;
    return this.#office.nowMs + Math.max(0, Math.min(waitMs, remainingMs - marginMs));
  }

  #cancel(job: ManagedJob, answer: Answer): void {
    this.#flow.cancel(job);
    this.#office.commits.onceJobCommitted(job, () =>
      answer(success(JSON.stringify({ jobId: job.id, status: job.recordedStatus }))),
    );
  }

  #explain(job: ManagedJob): readonly string[] {
    const lines = [`${job.id} is ${job.recordedStatus}`];
    if (isTerminalStatus(job.status)) return job.errorMessage === undefined ? lines : [...lines, job.errorMessage];
    const { selection, nowMs } = this.#office;
    for (const workflow of job.workflows) {
      const { facts, waiting, units, done, active, status } = workflow;
      lines.push(`${facts.name}: ${status}, ${done} of ${units.length} units done, ${active} at workers`);
      const unit = waiting.at(-1);
      if (unit === undefined) continue;
      lines.push(`${facts.name} waits: ${this.#giving.waitReason(workflow)}`);
      lines.push(...selection.explain(unit, nowMs));
    }
    return lines;
  }

  #gather(call: number, verb: ResultVerb, job: ManagedJob, fields: JsonFields): void {
    const workflow =
      fields['workflow'] === undefined ? undefined : checkText(fields['workflow'], 'workflow', jobLimits.nameLengthMax);
    const part = checkOptionalInteger(fields['part'], 'part', 0, 10_000);
    if (!isTerminalStatus(job.recordedStatus))
      throw new RemusterError('PRECONDITION', `job ${job.id} is ${job.recordedStatus} and not over`, 'no');
    if (workflow !== undefined && !job.workflows.some(({ facts }) => facts.name === workflow))
      throw badArgument(`job ${job.id} has no workflow ${JSON.stringify(workflow)}`);
    this.#ports.gather(call, verb, job, { workflow, part, oneByOne: fields['oneByOne'] === true });
  }

  #parts(job: ManagedJob): Parameters<typeof jobViewOf>[1] {
    const { nowMs, managerClockMs: managerMs } = this.#office;
    return { nowMs, managerMs, dc: this.#ports.dc, queue: this.queuePosition(job) };
  }
}

function submitted(job: ManagedJob, isNew: boolean): Outcome<string> {
  // JSON, put together: neither of them has a character that would have to be written otherwise.
  return success(`{"jobId":"${job.id}","status":"${job.recordedStatus}","isNew":${isNew}}`);
}
