/**
 * Clients of simulated jobs: they submit through some node, retry through others, watch, cancel and read results. They
 * also duplicate submissions and reuse keys.
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
  /** The mean delay between two jobs. */
  readonly pauseMs: number;
  /** How many jobs a burst has; 0 for no bursts. */
  readonly burstSize: number;
  /** How long units may still act after a cancel was acknowledged. */
  readonly cancelGraceMs: number;
};

type Accepted = { readonly plan: JobPlan; readonly job: string };

const timeoutsMs = [1_500, 3_000, 6_000];
const retryLimitMs = 16_000;
const retryMsMax = 400;
const pollMsMax = 1_200;
const watchWaitMs = 1_500;
const burstChance = 0.12;
/** A request that reuses a key differs in this timeout. */
const otherTimeoutMs = 17_000;

export class JobClients {
  readonly #options: JobClientsOptions;
  readonly #random: Random;
  readonly #requester: JobRequester;
  readonly #accepted = new Map<string, Accepted>();
  #isStopped = false;

  constructor(options: JobClientsOptions) {
    this.#options = options;
    this.#random = options.random;
    this.#requester = new JobRequester(options.world, options.observe);
  }

  start(): void {
    if (this.#isStopped) return;
    const { burstSize, plans, pauseMs } = this.#options;
    const isBurst = burstSize > 0 && this.#random.chance(burstChance);
    if (isBurst) for (let at = 0; at < burstSize; at++) this.submit(plans.draw('small'));
    else this.submit(plans.draw());
    this.#schedule(this.#random.between(0, 2 * pauseMs), () => this.start());
  }

  /** Submits no new jobs from now on. */
  stopSubmitting(): void {
    this.#isStopped = true;
  }

  /** Reads each accepted job for the last time. */
  readAllJobs(): void {
    for (const accepted of this.#accepted.values()) this.#readOnce(accepted, 8);
  }

  submit(drawn: JobPlan): void {
    const { startAfterMs } = drawn;
    const startAtMs =
      startAfterMs === undefined ? undefined : worldStartWallMs + Math.ceil(this.#nowMs() + startAfterMs);
    const plan = startAtMs === undefined ? drawn : { ...drawn, request: { ...drawn.request, startAtMs } };
    this.#options.observe({ kind: 'jobSubmitted', plan });
    this.#store(plan, this.#nowMs() + retryLimitMs);
  }

  #store(plan: JobPlan, giveUpMs: number): void {
    const { code, request } = plan;
    this.#request({ verb: 'store', sha256: request.bundle, code }, (outcome) => {
      if (outcome?.ok === true) return this.#send(plan, giveUpMs, this.#random.chance(0.1) ? 2 : 1);
      if (this.#nowMs() < giveUpMs)
        this.#schedule(this.#random.between(1, retryMsMax), () => this.#store(plan, giveUpMs));
    });
  }

  /** A submission without an idempotency key is sent once. */
  #send(plan: JobPlan, giveUpMs: number, copies: number): void {
    const hasKey = plan.request.idempotencyKey !== undefined;
    for (let copy = 0; copy < (hasKey ? copies : 1); copy++) {
      this.#request(this.#requestOf('submit', plan, plan.request), (outcome) => {
        if (outcome?.ok === true) return this.#onAccepted(plan, JSON.parse(outcome.value) as SubmitReply);
        const error = outcome?.error;
        if (error?.code === 'UNKNOWN_BUNDLE') return this.#store(plan, giveUpMs);
        if (error !== undefined && !errorTable[error.code].retryable)
          this.#options.observe({ kind: 'jobRefused', plan, code: error.code, message: error.message });
        else if (copy === 0 && hasKey && this.#nowMs() < giveUpMs && !this.#isAccepted(plan))
          this.#schedule(this.#random.between(1, retryMsMax), () => this.#send(plan, giveUpMs, 1));
      });
    }
  }

  #isAccepted(plan: JobPlan): boolean {
    return [...this.#accepted.values()].some((one) => one.plan === plan);
  }

  #onAccepted(plan: JobPlan, { jobId: job, isNew }: SubmitReply): void {
    this.#options.observe({ kind: 'jobAccepted', plan, job, isNew });
    if (this.#accepted.has(job)) return;
    const accepted = { plan, job };
    this.#accepted.set(job, accepted);
    const { cancelAfterMs, request } = plan;
    if (cancelAfterMs !== undefined) this.#schedule(cancelAfterMs, () => this.#cancel(accepted));
    if (request.idempotencyKey !== undefined && this.#random.chance(0.15))
      this.#schedule(this.#random.between(0, 4_000), () => this.#send(plan, this.#nowMs() + retryLimitMs, 1));
    if (request.idempotencyKey !== undefined && this.#random.chance(0.05))
      this.#schedule(this.#random.between(0, 4_000), () => this.#submitOtherWithKey(plan));
    this.#follow(accepted, 0);
  }

  /** Submits a different request under the same key. */
  #submitOtherWithKey(plan: JobPlan): void {
    const request = { ...plan.request, timeoutMs: otherTimeoutMs };
    this.#request(this.#requestOf('submit', plan, request), (outcome) => {
      if (outcome?.ok === true) this.#options.observe({ kind: 'keyReused', plan });
    });
  }

  #cancel(accepted: Accepted): void {
    const { plan, job } = accepted;
    const { observe, cancelGraceMs: graceMs } = this.#options;
    observe({ kind: 'cancelRequested', job });
    this.#request(this.#requestOf('cancel', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok === true) {
        const { status } = JSON.parse(outcome.value) as SubmitReply;
        return observe({ kind: 'cancelAcknowledged', job, status, graceMs });
      }
      const error = outcome?.error;
      if (error?.code === 'UNKNOWN_JOB') return observe({ kind: 'jobUnknown', job });
      // An error that is not retryable: the job has already ended.
      if (error === undefined || errorTable[error.code].retryable)
        this.#schedule(this.#random.between(1, retryMsMax), () => this.#cancel(accepted));
    });
  }

  #follow(accepted: Accepted, version: number): void {
    const { plan, job } = accepted;
    const requestedMs = this.#nowMs();
    if (plan.kind === 'small' || this.#random.chance(0.3)) {
      return this.#schedule(this.#random.between(0, pollMsMax), () => {
        this.#show(accepted, (hasEnded) => {
          if (!hasEnded) this.#follow(accepted, version);
        });
      });
    }
    const request = { jobId: job, afterVersion: version, waitMs: watchWaitMs };
    this.#request(this.#requestOf('watch', plan, request), (outcome) => {
      if (outcome?.ok !== true) {
        if (outcome?.error.code === 'UNKNOWN_JOB') return this.#options.observe({ kind: 'jobUnknown', job });
        return this.#schedule(this.#random.between(1, retryMsMax), () => this.#follow(accepted, version));
      }
      const progress = JSON.parse(outcome.value) as JobProgress;
      const { status, completed, failed } = progress;
      // Totals of a job under way are not final.
      const totals = { completed, failed };
      this.#observe({ job, status, totals, code: undefined, attempts: undefined, requestedMs });
      if (isTerminalStatus(status)) this.#readResult(accepted);
      else this.#schedule(this.#random.between(0, pollMsMax / 4), () => this.#follow(accepted, progress.version));
    });
  }

  #show(accepted: Accepted, done: (hasEnded: boolean) => void): void {
    const { plan, job } = accepted;
    const requestedMs = this.#nowMs();
    this.#request(this.#requestOf('show', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok !== true) {
        if (outcome?.error.code === 'UNKNOWN_JOB') this.#options.observe({ kind: 'jobUnknown', job });
        return done(false);
      }
      const view = JSON.parse(outcome.value) as JobView;
      const { status } = view;
      this.#observe(observedJobOf(view, requestedMs));
      if (isTerminalStatus(status)) this.#readResult(accepted);
      done(isTerminalStatus(status));
    });
  }

  #readOnce(accepted: Accepted, attemptsLeft: number): void {
    const { plan, job } = accepted;
    const requestedMs = this.#nowMs();
    this.#request(this.#requestOf('show', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok === true) {
        return this.#observe(observedJobOf(JSON.parse(outcome.value) as JobView, requestedMs));
      }
      if (outcome?.error.code === 'UNKNOWN_JOB') return this.#options.observe({ kind: 'jobUnknown', job });
      if (attemptsLeft > 0) this.#schedule(retryMsMax, () => this.#readOnce(accepted, attemptsLeft - 1));
    });
  }

  #readResult(accepted: Accepted): void {
    const { plan, job } = accepted;
    if (this.#random.chance(0.3)) this.#readReport(accepted);
    this.#request(this.#requestOf('result', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok !== true) return;
      const { results } = JSON.parse(outcome.value) as { results?: Readonly<Record<string, unknown>> };
      if (results !== undefined) this.#options.observe({ kind: 'resultRead', job, results });
    });
  }

  #readReport({ plan, job }: Accepted): void {
    const requestedMs = this.#nowMs();
    this.#request(this.#requestOf('report', plan, { jobId: job }), (outcome) => {
      if (outcome?.ok !== true) return;
      const { status, totals } = JSON.parse(outcome.value) as Pick<JobView, 'status' | 'totals'>;
      this.#observe({ job, status, totals, code: undefined, attempts: undefined, requestedMs });
    });
  }

  #observe(view: ObservedJob): void {
    this.#options.observe({ kind: 'jobObserved', view });
  }

  #requestOf(
    verb: Exclude<SimulatedJobRequest['verb'], 'store'>,
    { submitter }: JobPlan,
    request: unknown,
  ): SimulatedJobRequest {
    return { verb, request, submitter };
  }

  #request(request: SimulatedJobRequest, onReply: JobReplyHandler): void {
    const { world } = this.#options;
    const timeoutMs = this.#random.pick(timeoutsMs) * this.#random.between(0.7, 1);
    const marginMs = request.verb === 'watch' ? watchWaitMs : 0;
    this.#requester.send(this.#random.pick(world.names), request, timeoutMs + marginMs, onReply);
  }

  #nowMs(): number {
    return this.#options.world.timeline.nowMs;
  }

  #schedule(delayMs: number, run: () => void): void {
    this.#options.world.timeline.after(delayMs, run);
  }
}

function observedJobOf({ jobId: job, status, totals, error, workflows }: JobView, requestedMs: number): ObservedJob {
  const attempts = workflows.map((workflow) => workflow.attempts);
  return { job, status, totals, code: error?.code, attempts, requestedMs };
}
