/**
 * Runs the CLI as a shell does, against the real HTTP routes of jobs; the test replies in place of the managers.
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

type CommandArgs = Record<string, unknown>;
type CliResult = { readonly exitCode: number | null; readonly out: string; readonly err: string };

export class JobCli {
  readonly folder = mkdtempSync(join(tmpdir(), 'remuster-jobs-cli-'));
  readonly file = join(this.folder, 'checkout.ts');
  commands: { readonly verb: string; readonly args: CommandArgs }[] = [];
  readonly stored = new Map<string, Uint8Array>();
  /** Reply by verb; a verb without one gets UNKNOWN_JOB. */
  replies: Record<string, (args: CommandArgs) => object | Outcome<string>> = {};
  #server: HttpServer | undefined;

  async start(): Promise<void> {
    writeFileSync(
      this.file,
      `import { workflow } from 'remuster';
    export default workflow('checkout', {
      vus: 2, duration: '10s', thresholds: { failed: ['rate<1%'] }, steps: { browse: () => 1 },
    });`,
    );
    const gateway: ReturnType<Parameters<typeof jobRoutes>[0]> = {
      send: (verb, text, _submitter, _remainingMs, done) => {
        const args = JSON.parse(text) as CommandArgs;
        this.commands.push({ verb, args });
        const reply = (this.replies[verb] ?? (() => failure('UNKNOWN_JOB')))(args);
        const outcome = 'ok' in reply ? reply : success(JSON.stringify(reply));
        // A watch is a long poll, as on a manager.
        setTimeout(() => done(outcome), verb === 'watch' ? 20 : 0);
      },
      storeBundle: (sha256, code, done) => {
        this.stored.set(sha256, code);
        done(success(undefined));
      },
    };
    const routes = jobRoutes(() => gateway, systemClock());
    this.#server = await openHttpServer({ host: '127.0.0.1', port: 0, routes, log: () => {} });
  }

  async close(): Promise<void> {
    await this.#server?.close();
    rmSync(this.folder, { recursive: true });
  }

  reset(): void {
    this.commands = [];
    this.stored.clear();
    this.replies = {};
  }

  /** The request of a submission, by default of the last one. */
  submission(index = -1): JobRequest {
    const { args } =
      this.commands.filter(({ verb }) => verb === 'submit').at(index) ?? assert.fail('nothing was submitted');
    return args as unknown as JobRequest;
  }

  /** `onStderr` gets everything on stderr so far and can interrupt the program. */
  run(
    argv: readonly string[],
    onStderr: (err: string, interrupt: () => void) => void = () => {},
    extraEnv: Readonly<Record<string, string>> = {},
  ): Promise<CliResult> {
    return new Promise((resolve) => {
      const addr = `http://127.0.0.1:${this.#server?.port}`;
      const env = { ...process.env, NO_COLOR: '1', REMUSTER_ADDR: addr, ...extraEnv };
      const child = spawn(process.execPath, [main, ...argv], { env, cwd: this.folder, timeout: 60_000 });
      let [out, err] = ['', ''];
      child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        err += text;
        onStderr(err, () => child.kill('SIGINT'));
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
