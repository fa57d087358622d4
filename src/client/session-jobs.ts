/** The jobs of one session: bundles files, gives every submission an idempotency key, returns job handles. */
import { RemusterError } from '../base/errors.ts';
import { type JobOutcome, type JobRow, type JobStatus, type SubmitReply, isTerminalStatus } from '../jobs/job-types.ts';
import { type Job, jobHandle } from './job.ts';
import { type SendClusterRequest, JobRequests } from './job-requests.ts';
import {
  type WorkflowBundler,
  type PreparedJob,
  type SubmitOptions,
  preparedJob,
  buildJobRequest,
  encodeJobRequest,
} from './submission.ts';

export type JobsListed = { readonly limit?: number; readonly status?: JobStatus };

export class SessionJobs {
  readonly #requests: JobRequests;
  readonly #sessionName: string;
  readonly #bundler: WorkflowBundler | undefined;
  #count = 0;

  constructor(
    sendRequest: SendClusterRequest,
    requestTimeoutMs: number,
    sessionName: string,
    bundler: WorkflowBundler | undefined,
  ) {
    this.#requests = new JobRequests(sendRequest, requestTimeoutMs);
    this.#sessionName = sessionName;
    this.#bundler = bundler;
  }

  async prepare(file: string): Promise<PreparedJob> {
    if (this.#bundler === undefined)
      throw new RemusterError('BAD_ARGUMENT', 'this session has no bundler for files: submit a prepared job');
    return preparedJob(await this.#bundler(file));
  }

  async submit(what: string | PreparedJob, options: SubmitOptions = {}): Promise<Job> {
    return this.job((await this.#submit(what, options, undefined)).jobId);
  }

  async run(what: string | PreparedJob, options: SubmitOptions = {}): Promise<JobOutcome> {
    const { jobId, status, error } = await this.#submit(what, options, this.#requests.longPollMs);
    if (!isTerminalStatus(status)) return await this.job(jobId).end();
    return { jobId, status, ...(error === undefined ? {} : { error }) };
  }

  async #submit(
    what: string | PreparedJob,
    options: SubmitOptions,
    waitMs: number | undefined,
  ): Promise<SubmitReply & JobOutcome> {
    const prepared = typeof what === 'string' ? await this.prepare(what) : what;
    this.#count += 1;
    const ownKey = `${this.#sessionName}-${this.#count}`;
    // The idempotency key of a schedule is its name, which is part of the request.
    const isSchedule = options.cron !== undefined;
    const args = isSchedule
      ? JSON.stringify(buildJobRequest(prepared, options, ownKey))
      : encodeJobRequest(prepared, options);
    const key = isSchedule ? undefined : (options.idempotencyKey ?? ownKey);
    const submitted = this.#requests.withBundle(prepared.sha256, prepared.code, () =>
      this.#requests.submit(args, key, waitMs),
    );
    return (await submitted) as SubmitReply & JobOutcome;
  }

  job(id: string): Job {
    return jobHandle(this.#requests, id);
  }

  async jobs(wanted: JobsListed = {}): Promise<readonly JobRow[]> {
    return ((await this.#requests.send('list', wanted)) as { readonly items: readonly JobRow[] }).items;
  }
}
