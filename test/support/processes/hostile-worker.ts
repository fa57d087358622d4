/** A worker with real runners and a leader that only receives reports, for hostile workflow code. */
import { createHash } from 'node:crypto';
import { type Done, type Outcome, success } from '../../../src/base/errors.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Address, Identity } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { RangeResult } from '../../../src/base/registry.ts';
import { systemClock } from '../../../src/io/system/clock.ts';
import { type OpenRunners, openRunners } from '../../../src/io/runner/runners.ts';
import { jobKeys } from '../../../src/jobs/job-keys.ts';
import { encodeUnitSpec } from '../../../src/jobs/unit-spec.ts';
import { WorkerHost } from '../../../src/jobs/worker/worker-host.ts';
import type { UnitAssignment, JobMessage, UnitReport } from '../../../src/messages/jobs.ts';
import { deriveFacts } from '../../../src/runner/definition/fact-derivation.ts';
import { runnerProgram } from '../../../src/runner/process/main.ts';
import { workflow } from '../../../src/runner/definition/workflow.ts';
import { registryEpoch } from '../../../src/base/registry-epoch.ts';

export type HostileOptions = {
  readonly network?: boolean;
  readonly memoryMb?: number;
  readonly timeoutMs?: number;
};

const encoder = new TextEncoder();
const facts = deriveFacts(workflow('hostile', { items: 1, each: () => undefined }));

export class HostileWorker {
  readonly worker: WorkerHost;
  readonly isolation: OpenRunners['isolation'];
  readonly errors: unknown[] = [];
  readonly #clock = systemClock();
  readonly #stored = new Map<string, Uint8Array>();
  readonly #waiting = new Map<string, (report: UnitReport) => void>();
  readonly #manager: Identity;
  #jobs = 0;

  constructor(cores: number, memberAddresses: readonly Address[] = []) {
    const runners = openRunners(() => memberAddresses);
    const common = { host: '127.0.0.1', port: 1, generation: 1, dc: 'x' };
    this.isolation = runners.isolation;
    this.#manager = { ...common, id: nodeIdFrom(new Uint8Array(16).fill(9)), name: 'm', roles: ['manager'] };
    const self: Identity = { ...common, id: nodeIdFrom(new Uint8Array(16).fill(1)), name: 'w', roles: ['worker'] };
    this.worker = new WorkerHost(
      {
        ...{ clock: this.#clock, random: new Random('hostile'), self, cores, runners, program: runnerProgram, sha256 },
        ...{ isolation: runners.isolation, loadLevel: () => 'normal', leader: () => this.#manager },
        registry: { range: ({ from }, _options, done) => this.#range(from, done) },
        request: (_to, message, _timeoutMs, done) => void setImmediate(() => this.#onRequest(message, done)),
        emit: () => undefined,
        halted: (error) => this.errors.push(error),
      },
      // Long, because the machine that runs these tests may be slow for a while.
      { jobLeaseMs: 120_000 },
    );
  }

  /** Runs a workflow with one item whose `each` has these statements, and returns the report of its end. */
  async run(statements: string, options: HostileOptions = {}): Promise<UnitReport> {
    const { network = false, memoryMb = 256, timeoutMs = 60_000 } = options;
    const code = encoder.encode(`
      import { workflow } from 'remuster';
      const load = (name) => process.getBuiltinModule('node:' + name);
      export default workflow('hostile', { items: 1, async each(item, ctx) { ${statements} } });`);
    const bundle = sha256(code);
    this.#stored.set(jobKeys.bundlePart(bundle, 0), code);
    this.#jobs += 1;
    const name = { job: `job-${this.#jobs}`, workflow: 0, unit: 0 };
    const spec = encodeUnitSpec({
      ...{ ...name, units: 1, phase: 'whole', bundle, facts: JSON.stringify(facts), env: new Map(), seed: 1 },
      ...{ users: undefined, iterations: undefined, items: { from: 0, count: 1, list: undefined }, data: undefined },
      ...{ context: '{}', network, memoryMb, timeoutMs, submitter: 'test' },
    });
    const ended = new Promise<UnitReport>((resolve) => {
      this.#waiting.set(name.job, resolve);
    });
    await this.#assign({ ...name, spec, mayWait: false });
    return ended;
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.worker.stop(() => resolve());
    });
  }

  /** Retries a refused assignment as a new attempt: the first heartbeat of the worker may not have arrived. */
  async #assign(unit: Omit<UnitAssignment, 'attempt' | 'fence'>): Promise<void> {
    for (let attempt = 1; attempt <= 600; attempt++) {
      const units = [{ ...unit, attempt, fence: BigInt(attempt) }];
      const message = { kind: 'assignUnits', term: 1, generation: 1, units } as const;
      const reply = await new Promise<Outcome<JobMessage>>((resolve) => {
        this.worker.assignUnits(this.#manager, message, resolve);
      });
      if (reply.ok && reply.value.kind === 'assignUnitsReply' && reply.value.units[0]?.code === undefined) return;
      await new Promise<void>((resolve) => {
        this.#clock.schedule(50, resolve);
      });
    }
    throw new Error('the worker accepts no unit');
  }

  #range(from: string, done: Done<RangeResult>): void {
    const key = [...this.#stored.keys()].find((stored) => stored.startsWith(from));
    const meta = { createRevision: 1, modRevision: 1, version: 1, lease: undefined };
    const value = key === undefined ? undefined : this.#stored.get(key);
    const entries = key === undefined || value === undefined ? [] : [{ key, value, ...meta }];
    setImmediate(() => done(success({ epoch: registryEpoch('', 0), entries, more: false, revision: 1 })));
  }

  #onRequest(message: JobMessage, done: Done<JobMessage>): void {
    if (message.kind === 'workerHeartbeat')
      return done(success({ kind: 'workerHeartbeatReply', term: 1, leaseMs: 120_000, stop: [] }));
    if (message.kind !== 'reportUnits') throw new Error(`a worker does not send ${message.kind}`);
    const ends = message.reports.filter(({ status }) => status !== 'started' && status !== 'progress');
    done(success({ kind: 'reportUnitsAck', acknowledged: ends, stop: [] }));
    for (const report of ends) this.#waiting.get(report.job)?.(report);
    return undefined;
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
