/**
 * Requests about jobs to one node, or to any node of the dev cluster when that one is gone. Every wait has an end. A
 * job outlives the node that was asked, and so does watching it.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type ErrorCode, isRemusterError } from '../../base/errors.ts';
import { type JobProgress, isTerminalStatus } from '../../jobs/job-types.ts';
import { onlyDevCluster } from '../command/dev-state.ts';
import { sendJson, getJson, withQuery } from '../command/http-client.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';

/** Longer than a node keeps asking the managers. */
const answerMs = 25_000;
const watchMs = 2_000;
/** A node that is merely silent is not waited for longer, if there are others. */
const watchAnswerMs = 7_000;
const pauseMs = 500;
/** Without a word from any node for so long, following ends. */
const silenceMsMax = 60_000;
/** The node itself is the trouble, not what was asked. */
const failoverCodes: readonly ErrorCode[] = ['UNREACHABLE', 'DEADLINE'];

export class JobHttpClient {
  readonly #targets: readonly ClusterTarget[];
  #current = 0;

  constructor(targets: readonly ClusterTarget[]) {
    this.#targets = targets;
  }

  async get(path: string, timeoutMs = answerMs): Promise<unknown> {
    return await this.#anywhere((target) => getJson(target, path, timeoutMs));
  }

  /** What is ordered here can be ordered twice: submissions have a key. */
  async change(method: 'POST' | 'DELETE', path: string, body?: unknown): Promise<unknown> {
    return await this.#anywhere((target) => sendJson(target, method, path, body, answerMs));
  }

  /** What there is to say about a job now and with each change; the last one is that of a job that is over. */
  async *progress(jobId: string): AsyncGenerator<JobProgress, void, undefined> {
    let heardMs = Date.now();
    for (let after = 0; ;) {
      let progress: JobProgress;
      try {
        const query = { follow: 'false', after: String(after), waitMs: String(watchMs) };
        const timeoutMs = this.#targets.length > 1 ? watchAnswerMs : answerMs;
        progress = (await this.get(withQuery(jobPath(jobId, '/progress'), query), timeoutMs)) as JobProgress;
      } catch (error) {
        const mayPass = isRemusterError(error) && error.row.retryable && Date.now() - heardMs < silenceMsMax;
        if (!mayPass) throw error;
        await pause(pauseMs);
        continue;
      }
      heardMs = Date.now();
      const isEnd = isTerminalStatus(progress.status);
      if (progress.version !== after || isEnd) yield progress;
      if (isEnd) return;
      after = progress.version;
    }
  }

  async #anywhere<T>(ask: (target: ClusterTarget) => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await ask(this.#targets[this.#current] as ClusterTarget);
      } catch (error) {
        const isElsewhere = isRemusterError(error) && failoverCodes.includes(error.code);
        if (!isElsewhere || tried >= this.#targets.length) throw error;
        this.#current = (this.#current + 1) % this.#targets.length;
      }
    }
  }
}

export async function openJobHttpClient(flags: TargetFlags): Promise<JobHttpClient> {
  const first = await resolveTarget(flags);
  const dev = onlyDevCluster();
  const others = dev?.admin === first.addr ? dev.nodes.map(({ host, httpPort }) => `http://${host}:${httpPort}`) : [];
  const addresses = new Set([first.addr, ...others]);
  return new JobHttpClient([...addresses].map((addr) => ({ addr, token: first.token })));
}

export function jobPath(jobId: string, rest = ''): string {
  return `/v1/jobs/${encodeURIComponent(jobId)}${rest}`;
}

/** The answer without the number of its shape. */
export function withoutSchemaVersion(answer: unknown): object {
  const { schemaVersion: _, ...rest } = answer as { schemaVersion: number };
  return rest;
}
