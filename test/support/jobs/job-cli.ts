/**
 * A node with the real routes of jobs behind which the test answers for the managers, and the program as a shell runs
 * it. Holds no tests itself.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Outcome, failure, success } from '../../../src/base/errors.ts';
import { systemClock } from '../../../src/io/system/clock.ts';
import { type HttpServer, openHttpServer } from '../../../src/io/http/http-server.ts';
import type { JobRequest } from '../../../src/jobs/job-types.ts';
import { type Report, buildReport } from '../../../src/jobs/report/report.ts';
import { Summary } from '../../../src/jobs/report/summary.ts';
import { jobRoutes } from '../../../src/node/http/job-routes.ts';

const main = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url));

type Words = Record<string, unknown>;
type Ran = { readonly exitCode: number | null; readonly out: string; readonly err: string };

export class JobCli {
  readonly folder = mkdtempSync(join(tmpdir(), 'remuster-jobs-cli-'));
  readonly file = join(this.folder, 'checkout.ts');
  orders: { readonly verb: string; readonly words: Words }[] = [];
  readonly stored = new Map<string, Uint8Array>();
  answers: Record<string, (words: Words) => object | Outcome<string>> = {};
  #server: HttpServer | undefined;

  async start(): Promise<void> {
    writeFileSync(
      this.file,
      `import { workflow } from 'remuster';
    export default workflow('checkout', {
      vus: 2, duration: '10s', thresholds: { failed: ['rate<1%'] }, steps: { browse: () => 1 },
    });`,
    );
    const desk: ReturnType<Parameters<typeof jobRoutes>[0]> = {
      send: (verb, text, _submitter, _remainingMs, done) => {
        const words = JSON.parse(text) as Words;
        this.orders.push({ verb, words });
        const answer = (this.answers[verb] ?? (() => failure('UNKNOWN_JOB')))(words);
        const outcome = 'ok' in answer ? answer : success(JSON.stringify(answer));
        // As managers do: a request for changes that there are not waits a little.
        setTimeout(() => done(outcome), verb === 'watch' ? 20 : 0);
      },
      storeBundle: (sha256, code, done) => {
        this.stored.set(sha256, code);
        done(success(undefined));
      },
    };
    const routes = jobRoutes(() => desk, systemClock());
    this.#server = await openHttpServer({ host: '127.0.0.1', port: 0, routes, log: () => {} });
  }

  async close(): Promise<void> {
    await this.#server?.close();
    rmSync(this.folder, { recursive: true });
  }

  reset(): void {
    this.orders = [];
    this.stored.clear();
    this.answers = {};
  }

  /** What the last submission said, or one before it. */
  submission(place = -1): JobRequest {
    const { words } =
      this.orders.filter(({ verb }) => verb === 'submit').at(place) ?? assert.fail('nothing was submitted');
    return words as unknown as JobRequest;
  }

  /** `said` sees everything on stderr so far, and may signal. */
  run(
    words: readonly string[],
    said: (err: string, kill: () => void) => void = () => {},
    more: Readonly<Record<string, string>> = {},
  ): Promise<Ran> {
    return new Promise((resolve) => {
      const addr = `http://127.0.0.1:${this.#server?.port}`;
      const env = { ...process.env, NO_COLOR: '1', REMUSTER_ADDR: addr, ...more };
      const child = spawn(process.execPath, [main, ...words], { env, cwd: this.folder, timeout: 60_000 });
      let [out, err] = ['', ''];
      child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        err += text;
        said(err, () => child.kill('SIGINT'));
      });
      child.once('close', (exitCode) => resolve({ exitCode, out, err }));
    });
  }
}

export function jobReport(status: Report['status'], failed: number, request?: JobRequest): Report {
  const summary = new Summary();
  summary.iterations = 100;
  summary.failed = failed;
  const [facts] = request?.workflows ?? [];
  const one =
    facts === undefined
      ? []
      : [{ facts, status: 'COMPLETED' as const, summary, completed: 100, failed, elapsedMs: 9_000 }];
  return buildReport({
    ...{ jobId: 'j1', name: 'checkout', status, elapsedMs: 10_000, workflows: one, attempts: [] },
    incidents: [{ time: '2026-01-01T10:00:00.000Z', type: 'worker.lost', node: 'w2', effect: 'unit 1 restarts' }],
  });
}
