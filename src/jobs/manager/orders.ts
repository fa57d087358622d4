/**
 * What is asked of the leading manager: each verb with its checks. Answers are given when what they say is recorded.
 * What is wrong with an order ends it with an error and changes nothing.
 */
import { unreachable } from '../../base/assert.ts';
import { type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import type { JobVerb } from '../../messages/jobs.ts';
import { type JobShown, type JobStatus, isOver, jobStatuses } from '../job-words.ts';
import { jobLimits } from '../limits.ts';
import type { GatherWords, ManagerInput } from './acts.ts';
import { type Fields, bad, bytesOf, line, optionalWhole, parsedObject } from './checking.ts';
import type { Flow } from './flow.ts';
import type { Giving } from './giving.ts';
import { newJob } from './making.ts';
import type { Job } from './model.ts';
import type { Office } from './office.ts';
import { Positions } from './positions.ts';
import { latenciesOf } from './report-facts.ts';
import { keyCharactersMax } from './request-check.ts';
import type { CheckedRequest } from './requests.ts';
import type { Schedules } from './schedules.ts';
import { jobEnd, jobProgress, jobRow, jobShown } from './shown.ts';
import { Watching } from './watching.ts';

type Answer = (outcome: Outcome<string>) => void;
type Order = Pick<
  Extract<ManagerInput, { readonly kind: 'order' }>,
  'verb' | 'words' | 'submitter' | 'remainingMs' | 'waitMs' | 'key'
>;
type Other = Omit<Order, 'words' | 'verb' | 'waitMs' | 'key'> & {
  readonly call: number;
  readonly verb: Exclude<JobVerb, 'submit'>;
};

export type OrderPorts = {
  readonly dc: string;
  readonly sha256: (bytes: Uint8Array) => string;
  /** Calls back with whether that code is stored. */
  readonly knowsBundle: (sha256: string, done: (outcome: Outcome<boolean>) => void) => void;
  /** Reads what lies apart, and answers. */
  readonly gather: (call: number, verb: 'report' | 'result', job: Job, words: GatherWords) => void;
};

const listMax = 1_000;
const waitMsMax = 60_000;
/** Whoever waits gets its answer before it gives up. */
const marginMs = 300;
const encoder = new TextEncoder();

export class Orders {
  readonly #office: Office;
  readonly #ports: OrderPorts;
  readonly #giving: Giving;
  readonly #flow: Flow;
  readonly #schedules: Schedules;
  readonly watching = new Watching();
  readonly #positions: Positions;
  #lastJob = 0;

  constructor(office: Office, ports: OrderPorts, parts: { giving: Giving; flow: Flow; schedules: Schedules }) {
    this.#office = office;
    this.#ports = ports;
    this.#giving = parts.giving;
    this.#flow = parts.flow;
    this.#schedules = parts.schedules;
    this.#positions = new Positions(office);
  }

  carryOut(call: number, order: Order, answer: Answer): void {
    const { verb, words, submitter, remainingMs, waitMs } = order;
    try {
      if (submitter === '' || !submitter.isWellFormed() || bytesOf(submitter) > 256)
        throw bad('the submitter has no name, or one too long');
      const untilMs = this.#office.nowMs + Math.min(waitMs, remainingMs - marginMs);
      if (verb === 'submit') this.#submit(order, answer, waitMs === 0 ? undefined : untilMs);
      else this.#other({ call, verb, submitter, remainingMs }, parsedObject(words === '' ? '{}' : words), answer);
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      answer({ ok: false, error });
    }
  }

  /** With `untilMs` the answer waits for the end of the job, until then. */
  #submit(order: Order, answer: Answer, untilMs: number | undefined): void {
    const { words, submitter } = order;
    const checked = this.#office.requests.of(words);
    const { bundle, cron } = checked.request;
    const key = this.#keyOf(order, checked);
    const isKnown = (): boolean => key !== undefined && this.#again(key, checked, answer, untilMs);
    if (cron === undefined && isKnown()) return;
    this.#ports.knowsBundle(bundle, (known) => {
      if (!known.ok) return answer(known);
      if (!known.value) return answer(failure('UNKNOWN_BUNDLE', `no code with the hash ${bundle} is stored`));
      try {
        if (cron !== undefined) this.#schedules.add(checked.request, words, submitter, answer);
        else if (!isKnown()) this.#make(checked, submitter, key, answer, untilMs);
      } catch (error) {
        if (!isRemusterError(error)) throw error;
        answer({ ok: false, error });
      }
    });
  }

  /** For a schedule: each firing is a job of its own. Undefined if there is no room. */
  fire(words: string, submitter: string): Job | undefined {
    try {
      const { requests } = this.#office;
      const { cron: _cron, idempotencyKey: _key, ...request } = requests.of(words).request;
      return this.#make(requests.of(JSON.stringify(request)), submitter, undefined, () => {});
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      return undefined;
    }
  }

  /** Keys of different submitters are different keys. */
  #keyOf({ key, submitter }: Order, { request }: CheckedRequest): string | undefined {
    if (key !== undefined && request.idempotencyKey !== undefined) throw bad('there are two idempotencyKeys');
    const name =
      request.idempotencyKey ?? (key === undefined ? undefined : line(key, 'idempotencyKey', keyCharactersMax));
    return name === undefined ? undefined : this.#ports.sha256(encoder.encode(`${submitter}\0${name}`));
  }

  queueOf(job: Job): JobShown['queue'] {
    if (job.shown !== 'QUEUED' && job.shown !== 'SUBMITTED') return null;
    const waits = job.startAtMs !== undefined && job.status === 'SUBMITTED';
    const workflow = job.workflows.find((one) => one.waiting.length > 0);
    const reason = waits ? 'its start time has not come' : workflow === undefined ? '' : this.#giving.reason(workflow);
    return { position: this.#positions.of(job), reason };
  }

  #again(key: string, checked: CheckedRequest, answer: Answer, untilMs: number | undefined): boolean {
    const job = this.#office.book.ofKey(key);
    if (job === undefined) return false;
    if (job.hash !== checked.hash()) {
      answer(failure('PRECONDITION', `the idempotency key was used before, with other content, for job ${job.id}`));
      return true;
    }
    this.#office.ledger.afterJob(job, () => this.#acknowledge(job, false, answer, untilMs));
    return true;
  }

  /** It is recorded. Whoever wants to wait for the end is told then, unless too many wait already. */
  #acknowledge(job: Job, isNew: boolean, answer: Answer, untilMs: number | undefined): void {
    if (untilMs === undefined || this.watching.isFull) return answer(submitted(job, isNew));
    this.#awaitEnd(job, untilMs, answer);
  }

  #make(checked: CheckedRequest, submitter: string, key: string | undefined, answer: Answer, untilMs?: number): Job {
    const { book, ledger, managerMs, wallMs, term, random, nowMs } = this.#office;
    const { words, request } = checked;
    book.checkRoom(submitter, words.length);
    this.#lastJob += 1;
    const id = `j${term.toString(36).padStart(5, '0')}${this.#lastJob.toString(36).padStart(6, '0')}`;
    const seed = request.seed ?? random.uint32();
    const hash = key === undefined ? undefined : checked.hash();
    const birth = { id, submitter, submittedWallMs: wallMs, submittedMs: managerMs, seed, key, hash, words };
    const job = newJob(birth, checked, nowMs);
    job.version = Watching.firstVersion(term);
    book.add(job);
    if (job.startAtMs === undefined || job.startAtMs <= wallMs) this.#flow.begin(job);
    ledger.touchAnd(job, () => this.#acknowledge(job, true, answer, untilMs));
    return job;
  }

  #other(order: Other, fields: Fields, answer: Answer): void {
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
        return this.#gather(call, verb, this.#job(fields), fields);
      case 'schedules':
        return answer(success(JSON.stringify({ items: this.#schedules.shown() })));
      case 'unschedule':
        return this.#schedules.remove(line(fields['name'], 'name', 256), submitter, answer);
      default:
        return unreachable(verb);
    }
  }

  #job(fields: Fields): Job {
    const id = line(fields['jobId'], 'jobId', 64);
    const job = this.#office.book.get(id);
    // A job that is not recorded yet is not there for anybody.
    if (job === undefined || !job.isStored)
      throw new RemusterError('UNKNOWN_JOB', `there is no job ${JSON.stringify(id)}`);
    return job;
  }

  #list(fields: Fields): readonly unknown[] {
    const limit = optionalWhole(fields['limit'], 'limit', 1, listMax) ?? 100;
    const { status } = fields;
    if (status !== undefined && !jobStatuses.includes(status as JobStatus)) throw bad('status is no status of a job');
    const jobs = [...this.#office.book.values()].toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const wanted = jobs.filter((job) => job.isStored && (status === undefined || job.shown === status));
    return wanted.slice(0, limit).map(jobRow);
  }

  #openCount(): number {
    let count = 0;
    for (const { isStored } of this.#office.book.open) if (isStored) count += 1;
    return count;
  }

  #show(job: Job, answer: Answer): void {
    const { ledger, options } = this.#office;
    ledger.afterJob(job, () => {
      answer(success(JSON.stringify(jobShown(job, this.#parts(job), options.jobTimeoutMs))));
    });
  }

  #watch(job: Job, fields: Fields, remainingMs: number, answer: Answer): void {
    const { ledger } = this.#office;
    const afterVersion = optionalWhole(fields['afterVersion'], 'afterVersion', 0, Number.MAX_SAFE_INTEGER) ?? 0;
    this.watching.add(job, afterVersion, this.#untilMs(fields, remainingMs), () => {
      ledger.afterJob(job, () => {
        answer(success(JSON.stringify(jobProgress(job, this.#parts(job), latenciesOf(job)))));
      });
    });
  }

  /** For those who want nothing but the end: a few words instead of everything. */
  #awaitEnd(job: Job, untilMs: number, answer: Answer): void {
    const tell = (): void => this.#office.ledger.afterJob(job, () => answer(success(JSON.stringify(jobEnd(job)))));
    if (isOver(job.shown)) tell();
    else this.watching.add(job, Infinity, untilMs, tell);
  }

  #untilMs(fields: Fields, remainingMs: number): number {
    const waitMs = optionalWhole(fields['waitMs'], 'waitMs', 0, waitMsMax) ?? 0;
    return this.#office.nowMs + Math.max(0, Math.min(waitMs, remainingMs - marginMs));
  }

  #cancel(job: Job, answer: Answer): void {
    this.#flow.cancel(job);
    this.#office.ledger.afterJob(job, () => answer(success(JSON.stringify({ jobId: job.id, status: job.shown }))));
  }

  #explain(job: Job): readonly string[] {
    const lines = [`${job.id} is ${job.shown}`];
    if (isOver(job.status)) return job.why === undefined ? lines : [...lines, job.why];
    const { selection, nowMs } = this.#office;
    for (const workflow of job.workflows) {
      const { facts, waiting, units, done, active, status } = workflow;
      lines.push(`${facts.name}: ${status}, ${done} of ${units.length} units done, ${active} at workers`);
      const unit = waiting.at(-1);
      if (unit === undefined) continue;
      lines.push(`${facts.name} waits: ${this.#giving.reason(workflow)}`);
      lines.push(...selection.explain(unit, nowMs));
    }
    return lines;
  }

  #gather(call: number, verb: 'report' | 'result', job: Job, fields: Fields): void {
    const workflow =
      fields['workflow'] === undefined ? undefined : line(fields['workflow'], 'workflow', jobLimits.nameLengthMax);
    const part = optionalWhole(fields['part'], 'part', 0, 10_000);
    if (!isOver(job.shown)) throw new RemusterError('PRECONDITION', `job ${job.id} is ${job.shown} and not over`);
    if (workflow !== undefined && !job.workflows.some(({ facts }) => facts.name === workflow))
      throw bad(`job ${job.id} has no workflow ${JSON.stringify(workflow)}`);
    this.#ports.gather(call, verb, job, { workflow, part });
  }

  #parts(job: Job): Parameters<typeof jobShown>[1] {
    const { nowMs, managerMs } = this.#office;
    return { nowMs, managerMs, dc: this.#ports.dc, queue: this.queueOf(job) };
  }
}

function submitted(job: Job, isNew: boolean): Outcome<string> {
  // JSON, put together: neither of them has a character that would have to be written otherwise.
  return success(`{"jobId":"${job.id}","status":"${job.shown}","isNew":${isNew}}`);
}
