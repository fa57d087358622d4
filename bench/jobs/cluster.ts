/** The Remuster side: a manager, workers, a session that submits. */
import { readFileSync } from 'node:fs';

import { type ClusterSession, connect } from '../../src/client/index.ts';
import type { Job } from '../../src/client/job.ts';
import type { PreparedJob, SubmitOptions } from '../../src/client/submission.ts';
import { BenchAgents } from '../support/agents.ts';
import { type BenchWorkflow, workflowFile } from './workflows.ts';

export class JobBenchCluster {
  readonly #folder: string;
  readonly #agents: BenchAgents;
  readonly #prepared = new Map<BenchWorkflow, PreparedJob>();
  #session: ClusterSession | undefined;

  constructor(folder: string) {
    this.#folder = folder;
    this.#agents = new BenchAgents('jobs-bench', folder, ['--log-level', 'warn']);
  }

  /** The caller must call `stop`, also after a failure. */
  async start(workers: readonly string[]): Promise<void> {
    await this.#agents.start('m0', 'manager');
    await Promise.all(workers.map((name) => this.startWorker(name)));
    this.#session = await connect(this.#agents.connectOptions('m0'));
    for (const name of workers)
      await this.until(`${name} has warm runners`, async () => (await this.#coresWithoutRunner(name)) === 0);
  }

  get session(): ClusterSession {
    if (this.#session === undefined) throw new Error('the cluster was not started');
    return this.#session;
  }

  async submit(name: BenchWorkflow, options: SubmitOptions = {}): Promise<Job> {
    return await this.session.submit(await this.#prepare(name), options);
  }

  /** Submits a job and awaits its result. */
  async run(name: BenchWorkflow): Promise<void> {
    const { jobId, status } = await this.session.run(await this.#prepare(name));
    if (status !== 'COMPLETED') throw new Error(`${jobId} ended as ${status}`);
  }

  /** The number of jobs that have not ended, by the leader. */
  async openJobs(): Promise<number> {
    const { queues } = (await this.#agents.get('m0', '/v1/node')) as { queues: { readonly jobs: number } };
    return queues.jobs;
  }

  async startWorker(name: string): Promise<void> {
    await this.#agents.start(name, 'worker', 'm0');
  }

  kill(name: string): void {
    this.#agents.kill(name);
  }

  residentBytes(name: string): number {
    const status = readFileSync(`/proc/${this.#agents.pid(name)}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1_024;
  }

  async until(what: string, condition: () => Promise<boolean>): Promise<void> {
    await this.#agents.until(what, condition);
  }

  async stop(): Promise<void> {
    await this.#session?.close();
    await this.#agents.stop();
  }

  /** Bundles each workflow once. */
  async #prepare(name: BenchWorkflow): Promise<PreparedJob> {
    const known = this.#prepared.get(name) ?? (await this.session.prepare(workflowFile(this.#folder, name)));
    this.#prepared.set(name, known);
    return known;
  }

  /** Number of cores of the worker without a warm runner. */
  async #coresWithoutRunner(name: string): Promise<number> {
    const status = await this.#agents.get(name, '/v1/node');
    const { cores, runners } = status as { cores: { total: number } | null; runners: number };
    return (cores?.total ?? Infinity) - runners;
  }
}
