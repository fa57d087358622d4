/**
 * Clients of simulated jobs: submit through some node, retry through others, watch, cancel, read results. Also
 * duplicate submits and reused keys.
 */
import { errorTable } from '../../../../src/base/error-table.ts';
import type { Random } from '../../../../src/base/random.ts';
import { isTerminalStatus, type JobProgress, type JobView, type SubmitReply } from '../../../../src/jobs/job-types.ts';
import { worldStartWallMs } from '../../../../src/simulation/world/simulated-host.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { type JobReplyHandler, JobRequester, type SimulatedJobRequest } from './job-requester.ts';
import type { ObservedJob } from '../../checking/job-observations.ts';
import type { JobPlan, JobPlanGenerator } from './job-plans.ts';

export type JobClientsOptions = {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly random: Random;
  readonly plans: JobPlanGenerator;
  readonly observe: WorkloadContext['observe'];
  /** About how long until the next job comes. */
  readonly pauseMs: number;
  /** How many jobs come at once now and then. */
  readonly burstSize: number;
  /** How long a job may go on after its cancelling was acknowledged. */
  readonly cancelGraceMs: number;
};

type Accepted = { readonly plan: JobPlan; readonly job: string };

const timeoutsMs = [1_500, 3_000, 6_000];
const patienceMs = 16_000;
const againMsMax = 400;
const lookMsMax = 1_200;
const watchWaitMs = 1_500;
const crowdChance = 0.12;
/** The order of words has no meaning; these are words of other content. */
const otherTimeoutMs = 17_000;

export class JobClients {
  readonly #spec: JobClientsOptions;
  readonly #random: Random;
  readonly #errands: JobRequester;
  readonly #accepted = new Map<string, Accepted>();
  #isOver = false;

  constructor(spec: JobClientsOptions) {
    this.#spec = spec;
    this.#random = spec.random;
    this.#errands = new JobRequester(spec.world, spec.observe);
  }

  start(): void {
    if (this.#isOver) return;
    const { burstSize, plans, pauseMs } = this.#spec;
    const isCrowd = burstSize > 0 && this.#random.chance(crowdChance);
    if (isCrowd) for (let at = 0; at < burstSize; at++) this.submit(plans.draw('small'));
    else this.submit(plans.draw());
    this.#later(this.#random.between(0, 2 * pauseMs), () => this.start());
  }

  /** No new jobs from now on. */
  stopSubmitting(): void {
    this.#isOver = true;
  }

  /** Asks for each accepted job for the last time. */
  readAllJobs(): void {
    for (const accepted of this.#accepted.values()) this.#lookOnce(accepted, 8);
  }

  submit(drawn: JobPlan): void {
    const { startAfterMs } = drawn;
    const startAtMs =
      startAfterMs === undefined ? undefined : worldStartWallMs + Math.ceil(this.#nowMs() + startAfterMs);
    const plan = startAtMs === undefined ? drawn : { ...drawn, request: { ...drawn.request, startAtMs } };
    this.#spec.observe({ kind: 'jobWanted', plan });
    this.#store(plan, this.#nowMs() + patienceMs);
  }

  #store(plan: JobPlan, giveUpMs: number): void {
    const { code, request } = plan;
    this.#ask({ verb: 'store', sha256: request.bundle, code }, (outcome) => {
      if (outcome?.ok === true) return this.#send(plan, giveUpMs, this.#random.chance(0.1) ? 2 : 1);
      if (this.#nowMs() < giveUpMs) this.#later(this.#random.between(1, againMsMax), () => this.#store(plan, giveUpMs));
    });
  }

  /** What has no key is sent once. */
  #send(plan: JobPlan, giveUpMs: number, copies: number): void {
    const hasKey = plan.request.idempotencyKey !== undefined;
    for (let copy = 0; copy < (hasKey ? copies : 1); copy++) {
      this.#ask(this.#question('submit', plan, plan.request), (outcome) => {
        if (outcome?.ok === true) return this.#wasAccepted(plan, JSON.parse(outcome.value) as SubmitReply);
        const error = outcome?.error;
        if (error?.code === 'UNKNOWN_BUNDLE') return this.#store(plan, giveUpMs);
        if (error !== undefined && !errorTable[error.code].retryable)
          this.#spec.observe({ kind: 'jobRefused', plan, code: error.code, message: error.message });
        else if (copy === 0 && hasKey && this.#nowMs() < giveUpMs && !this.#isAccepted(plan))
          this.#later(this.#random.between(1, againMsMax), () => this.#send(plan, giveUpMs, 1));
      });
    }
  }

  #isAccepted(plan: JobPlan): boolean {
    return [...this.#accepted.values()].some((one) => one.plan === plan);
  }

  #wasAccepted(plan: JobPlan, { jobId: job, isNew }: SubmitReply): void {
    this.#spec.observe({ kind: 'jobAccepted', plan, job, isNew });
    if (this.#accepted.has(job)) return;
    const accepted = { plan, job };
    this.#accepted.set(job, accepted);
    const { cancelAfterMs, request } = plan;
    if (cancelAfterMs !== undefined) this.#later(cancelAfterMs, () => this.#cancel(accepted));
    if (request.idempotencyKey !== undefined && this.#random.chance(0.15))
      this.#later(this.#random.between(0, 4_000), () => this.#send(plan, this.#nowMs() + patienceMs, 1));
    if (request.idempotencyKey !== undefined && this.#random.chance(0.05))
      this.#later(this.#random.between(0, 4_000), () => this.#reuseKey(plan));
    this.#follow(accepted, 0);
  }

  /** The same key for something else. */
  #reuseKey(plan: JobPlan): void {
    const words = { ...plan.request, timeoutMs: otherTimeoutMs };
    this.#ask(this.#question('submit', plan, words), (outcome) => {
      if (outcome?.ok === true) this.#spec.observe({ kind: 'keyStolen', plan });
    });
  }

  #cancel(accepted: Accepted): void {
    const { plan, job } = accepted;
    const { observe, cancelGraceMs: graceMs } = this.#spec;
    observe({ kind: 'cancelWanted', job });
    this.#ask(this.#question('cancel', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok === true) {
        const { status } = JSON.parse(outcome.value) as SubmitReply;
        return observe({ kind: 'cancelTold', job, status, graceMs });
      }
      const error = outcome?.error;
      if (error?.code === 'UNKNOWN_JOB') return observe({ kind: 'jobUnknown', job });
      // It may be over already, which is no mistake of anybody.
      if (error === undefined || errorTable[error.code].retryable)
        this.#later(this.#random.between(1, againMsMax), () => this.#cancel(accepted));
    });
  }

  #follow(accepted: Accepted, version: number): void {
    const { plan, job } = accepted;
    const askedMs = this.#nowMs();
    if (plan.kind === 'small' || this.#random.chance(0.3)) {
      return this.#later(this.#random.between(0, lookMsMax), () => {
        this.#show(accepted, (isEnd) => {
          if (!isEnd) this.#follow(accepted, version);
        });
      });
    }
    const words = { jobId: job, afterVersion: version, waitMs: watchWaitMs };
    this.#ask(this.#question('watch', plan, words), (outcome) => {
      if (outcome?.ok !== true) {
        if (outcome?.error.code === 'UNKNOWN_JOB') return this.#spec.observe({ kind: 'jobUnknown', job });
        return this.#later(this.#random.between(1, againMsMax), () => this.#follow(accepted, version));
      }
      const progress = JSON.parse(outcome.value) as JobProgress;
      const { status, completed, failed } = progress;
      // Progress is not final until it is over.
      const totals = { completed, failed };
      this.#observe({ job, status, totals, code: undefined, attempts: undefined, askedMs });
      if (isTerminalStatus(status)) this.#askResult(accepted);
      else this.#later(this.#random.between(0, lookMsMax / 4), () => this.#follow(accepted, progress.version));
    });
  }

  #show(accepted: Accepted, done: (isEnd: boolean) => void): void {
    const { plan, job } = accepted;
    const askedMs = this.#nowMs();
    this.#ask(this.#question('show', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok !== true) {
        if (outcome?.error.code === 'UNKNOWN_JOB') this.#spec.observe({ kind: 'jobUnknown', job });
        return done(false);
      }
      const shown = JSON.parse(outcome.value) as JobView;
      const { status } = shown;
      this.#observe(sightOf(shown, askedMs));
      if (isTerminalStatus(status)) this.#askResult(accepted);
      done(isTerminalStatus(status));
    });
  }

  #lookOnce(accepted: Accepted, tries: number): void {
    const { plan, job } = accepted;
    const askedMs = this.#nowMs();
    this.#ask(this.#question('show', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok === true) {
        return this.#observe(sightOf(JSON.parse(outcome.value) as JobView, askedMs));
      }
      if (outcome?.error.code === 'UNKNOWN_JOB') return this.#spec.observe({ kind: 'jobUnknown', job });
      if (tries > 0) this.#later(againMsMax, () => this.#lookOnce(accepted, tries - 1));
    });
  }

  #askResult(accepted: Accepted): void {
    const { plan, job } = accepted;
    if (this.#random.chance(0.3)) this.#askReport(accepted);
    this.#ask(this.#question('result', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok !== true) return;
      const { results } = JSON.parse(outcome.value) as { results?: Readonly<Record<string, unknown>> };
      if (results !== undefined) this.#spec.observe({ kind: 'resultSeen', job, results });
    });
  }

  #askReport({ plan, job }: Accepted): void {
    const askedMs = this.#nowMs();
    this.#ask(this.#question('report', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok !== true) return;
      const { status, totals } = JSON.parse(outcome.value) as Pick<JobView, 'status' | 'totals'>;
      this.#observe({ job, status, totals, code: undefined, attempts: undefined, askedMs });
    });
  }

  #observe(sight: ObservedJob): void {
    this.#spec.observe({ kind: 'jobSeen', sight });
  }

  #question(
    verb: Exclude<SimulatedJobRequest['verb'], 'store'>,
    { submitter }: JobPlan,
    words: unknown,
  ): SimulatedJobRequest {
    return { verb, words, submitter };
  }

  #ask(question: SimulatedJobRequest, answered: JobReplyHandler): void {
    const { world } = this.#spec;
    const timeoutMs = this.#random.pick(timeoutsMs) * this.#random.between(0.7, 1);
    const margin = question.verb === 'watch' ? watchWaitMs : 0;
    this.#errands.request(this.#random.pick(world.names), question, timeoutMs + margin, answered);
  }

  #nowMs(): number {
    return this.#spec.world.timeline.nowMs;
  }

  #later(delayMs: number, run: () => void): void {
    this.#spec.world.timeline.after(delayMs, run);
  }
}

function sightOf({ jobId: job, status, totals, error, workflows }: JobView, askedMs: number): ObservedJob {
  const attempts = workflows.map((workflow) => workflow.attempts);
  return { job, status, totals, code: error?.code, attempts, askedMs };
}
