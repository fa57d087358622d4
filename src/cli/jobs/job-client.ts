/**
 * Requests about jobs to one node; with a dev cluster it fails over to the other nodes. A job outlives the node that
 * was asked, and so does following it. Every wait is bounded.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type ErrorCode, isRemusterError } from '../../base/errors.ts';
import { type JobProgress, isTerminalStatus } from '../../jobs/job-types.ts';
import { onlyDevCluster } from '../command/dev-state.ts';
import { sendJson, getJson, withQuery } from '../command/http-client.ts';
import { printNotice } from '../output/terminal.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';

/** Longer than the time for which a node retries at the managers. */
const replyTimeoutMs = 25_000;
const longPollMs = 2_000;
/** With other nodes to fail over to, a node that does not reply is given up after this time. */
const failoverTimeoutMs = 7_000;
const retryDelayMs = 500;
/** Following ends when no node has replied for this long. */
const silenceMaxMs = 60_000;
/** Errors of the node, not of the request: another node may succeed. */
const failoverCodes: readonly ErrorCode[] = ['UNREACHABLE', 'DEADLINE'];

export class JobHttpClient {
  readonly #targets: readonly ClusterTarget[];
  #current = 0;

  constructor(targets: readonly ClusterTarget[]) {
    this.#targets = targets;
  }

  async get(path: string, timeoutMs = replyTimeoutMs): Promise<unknown> {
    return await this.#withFailover((target) => getJson(target, path, timeoutMs));
  }

  /** Sends a request that changes state. It may be resent to another node: submissions have an idempotency key. */
  async change(method: 'POST' | 'DELETE', path: string, body?: unknown): Promise<unknown> {
    return await this.#withFailover((target) => sendJson(target, method, path, body, replyTimeoutMs));
  }

  /** Yields the progress of a job now and after each change; the last one has a terminal status. */
  async *progress(jobId: string): AsyncGenerator<JobProgress, void, undefined> {
    let lastReplyMs = Date.now();
    for (let after = 0; ;) {
      let progress: JobProgress;
      try {
        const query = { follow: 'false', after: String(after), waitMs: String(longPollMs) };
        const timeoutMs = this.#targets.length > 1 ? failoverTimeoutMs : replyTimeoutMs;
        progress = (await this.get(withQuery(jobPath(jobId, '/progress'), query), timeoutMs)) as JobProgress;
      } catch (error) {
        const isTransient = isRemusterError(error) && error.row.retryable && Date.now() - lastReplyMs < silenceMaxMs;
        if (!isTransient) throw error;
        await pause(retryDelayMs);
        continue;
      }
      lastReplyMs = Date.now();
      const isEnd = isTerminalStatus(progress.status);
      if (progress.version !== after || isEnd) yield progress;
      if (isEnd) return;
      after = progress.version;
    }
  }

  async #withFailover<T>(send: (target: ClusterTarget) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await send(this.#targets[this.#current] as ClusterTarget);
      } catch (error) {
        const canFailOver = isRemusterError(error) && failoverCodes.includes(error.code);
        if (!canFailOver || attempt >= this.#targets.length) throw error;
        const { addr } = this.#targets[this.#current] as ClusterTarget;
        this.#current = (this.#current + 1) % this.#targets.length;
        // Each node may take its time: a silent command looks stuck.
        printNotice(`${addr}: ${error.message}; trying ${this.#targets[this.#current]?.addr}`);
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

/** The reply without its `schemaVersion`. */
export function withoutSchemaVersion(reply: unknown): object {
  const { schemaVersion: _, ...rest } = reply as { schemaVersion: number };
  return rest;
}
