/**
 * A fake runner program: speaks the runner protocol on virtual time and behaves as its fake code says. Reports every
 * action to an observer first.
 */
import { Random } from '../../src/base/random.ts';
import type { Cancel, ProgramEndpoint } from '../../src/base/ports.ts';
import {
  type RunnerEvent,
  runnerEventCodec,
  type RunnerCommand,
  runnerCommandCodec,
} from '../../src/jobs/runner-protocol.ts';
import { decodeUnitSpec, type PlanOutput, type UnitSpec } from '../../src/jobs/unit-spec.ts';
import type { WorkflowFacts } from '../../src/jobs/workflow-facts.ts';
import type { ItemCounts } from '../simulation/checking/job-observations.ts';
import { type FakeCodeBehaviour, decodeFakeCode, type FakeCode } from './fake-code.ts';

/** Receives what one run of a unit does. */
export type ObservedRun = {
  readonly run: number;
  /** How often this unit was started before, on any node. */
  readonly runsBefore: number;
  acted(): void;
  ended(outcome: string, totals: ItemCounts): void;
  inconsistent(message: string): void;
};

export type RunnerObserver = {
  started(spec: UnitSpec, bytes: Uint8Array, assigned: Pick<RunCommand, 'attempt' | 'fence'>): ObservedRun;
};

type RunCommand = Extract<RunnerCommand, { readonly kind: 'run' }>;

/** The result of an item: its number, and the run that produced it. */
export type ItemResult = { readonly item: number; readonly run: number };

/** The output of setup, which all units of its workflow get. */
function setupData(job: string, workflow: number): string {
  return `${job}/${workflow}`;
}

const ticksMax = 30;
const hangTickMs = 400;
const progressMs = 100;
const stoppedMsMax = 20;

export function fakeRunner(channel: ProgramEndpoint, observer: RunnerObserver): void {
  const runner = new Runner(channel, observer);
  channel.receive((body) => runner.onCommand(runnerCommandCodec.decode(body)));
  channel.send(runnerEventCodec.encode({ kind: 'ready', prefetch: undefined }));
}

class Runner {
  readonly #channel: ProgramEndpoint;
  readonly #observer: RunnerObserver;
  readonly #codes = new Map<string, FakeCode>();
  #submitter: string | undefined;
  #current: { readonly number: number; readonly work: UnitWork } | undefined;

  constructor(channel: ProgramEndpoint, observer: RunnerObserver) {
    this.#channel = channel;
    this.#observer = observer;
  }

  onCommand(command: RunnerCommand): void {
    if (command.kind === 'run') return this.#run(command);
    if (this.#current?.number === command.runId) this.#current.work.stop();
  }

  #run({ runId: number, spec: bytes, code, ...assigned }: RunCommand): void {
    const spec = decodeUnitSpec(bytes);
    const observed = this.#observer.started(spec, bytes, assigned);
    if (code !== undefined) this.#codes.set(spec.bundle, decodeFakeCode(code));
    const fakeCode = this.#codes.get(spec.bundle);
    if (this.#current?.work.hasEnded === false) observed.inconsistent('its runner runs another unit');
    if (fakeCode === undefined) return observed.inconsistent('its runner never got the code');
    if ((this.#submitter ??= spec.submitter) !== spec.submitter)
      observed.inconsistent('its runner belongs to another submitter');
    const send = (event: RunnerEvent): void => this.#channel.send(runnerEventCodec.encode(event));
    const work = new UnitWork({ number, spec, fakeCode, observed, send, channel: this.#channel });
    this.#current = { number, work };
    work.start();
  }
}

type UnitWorkOptions = {
  readonly number: number;
  readonly spec: UnitSpec;
  readonly fakeCode: FakeCode;
  readonly observed: ObservedRun;
  readonly send: (event: RunnerEvent) => void;
  readonly channel: ProgramEndpoint;
};

class UnitWork {
  readonly #options: UnitWorkOptions;
  readonly #facts: WorkflowFacts;
  readonly #behaviour: FakeCodeBehaviour;
  readonly #random: Random;
  /** Items of a batch, iterations of a load. */
  readonly #from: number;
  readonly #count: number;
  /** Virtual users of a load run concurrently. */
  readonly #concurrency: number;
  /** Finished items or iterations, failed ones included. */
  #done = 0;
  #failed = 0;
  #reportedMs: number;
  #cancel: Cancel | undefined;
  hasEnded = false;

  constructor(options: UnitWorkOptions) {
    const { spec, fakeCode, observed, channel } = options;
    this.#options = options;
    this.#facts = JSON.parse(spec.facts) as WorkflowFacts;
    this.#behaviour = fakeCode.workflows[this.#facts.name] ?? { itemMs: 10 };
    this.#random = new Random(`${spec.seed}/${observed.run}`);
    this.#reportedMs = channel.clock.nowMs();
    this.#from = spec.items?.from ?? 0;
    this.#concurrency = this.#facts.load === undefined ? 1 : (spec.users?.count ?? this.#facts.load.vus);
    this.#count = countOf(spec, this.#facts, this.#behaviour);
  }

  start(): void {
    const { number, send } = this.#options;
    send({ kind: 'started', runId: number });
    this.#checkSpec();
    this.#tick();
  }

  stop(): void {
    if (this.hasEnded || this.#trouble() === 'ignoresStop') return;
    this.#cancel?.();
    this.#schedule(this.#random.between(0, stoppedMsMax), () => this.#end('cancelled'));
  }

  /** Checks the outputs of preceding workflows and of setup. */
  #checkSpec(): void {
    const { spec, fakeCode, observed } = this.#options;
    const context = JSON.parse(spec.context) as Readonly<Record<string, unknown>>;
    for (const before of this.#facts.after)
      if (context[before] === undefined && fakeCode.workflows[before]?.hasOutput !== false)
        observed.inconsistent(`it has no output of ${before}, which precedes it`);
    if ((spec.phase !== 'work' && spec.phase !== 'finish') || !this.#facts.hasSetup) return;
    const expected = JSON.stringify(setupData(spec.job, spec.workflow));
    // A setup that failed has no output.
    if (spec.data !== expected && (spec.phase === 'work' || spec.data !== undefined))
      observed.inconsistent(`it got ${spec.data ?? 'nothing'} from setup, not ${expected}`);
  }

  #trouble(): FakeCodeBehaviour['trouble'] {
    const { trouble, troubleRuns = Infinity, troubleUnit } = this.#behaviour;
    const { spec, observed } = this.#options;
    if (observed.runsBefore >= troubleRuns || spec.phase === 'finish') return undefined;
    const isAffected = spec.phase === 'plan' ? trouble === 'throws' : (troubleUnit ?? spec.unit) === spec.unit;
    return isAffected ? trouble : undefined;
  }

  #tick(): void {
    const trouble = this.#trouble();
    const isStuck = trouble === 'hangs' || trouble === 'ignoresStop';
    const step = Math.max(1, Math.ceil(this.#count / ticksMax));
    const rounds = Math.max(1, Math.min(step, this.#left()) / this.#concurrency);
    const durationMs = this.#random.between(0.5, 1.5) * this.#behaviour.itemMs * rounds;
    this.#schedule(isStuck && this.#done > 0 ? hangTickMs : durationMs, () => {
      this.#options.observed.acted();
      if (trouble === 'throws') return this.#end('failed', 'WORKFLOW_FAILED');
      if (isStuck && this.#done > 0) return this.#tick();
      this.#work(Math.min(step, this.#left()));
      if (trouble === 'crashes') throw new Error('the fake code crashes its process');
      if (trouble === 'sendsGarbage') return this.#options.channel.send(Uint8Array.of(9, 9, 9));
      if (this.#hasFound() || this.#hasStopped() || (this.#left() === 0 && !isStuck)) return this.#end('completed');
      this.#report();
      this.#tick();
    });
  }

  #left(): number {
    return Math.max(0, this.#count - this.#done);
  }

  #work(items: number): void {
    const percent = this.#behaviour.failingPercent ?? 0;
    for (let at = 0; at < items && !this.#hasStopped(); at++) {
      this.#done += 1;
      if (this.#random.below(100) < percent) this.#failed += 1;
    }
  }

  #hasStopped(): boolean {
    return this.#facts.batch?.onItemError === 'stop' && this.#failed > 0;
  }

  #hasFound(): boolean {
    const { finds = -1 } = this.#behaviour;
    return this.#facts.batch?.firstOnly === true && finds >= this.#from && finds < this.#from + this.#done;
  }

  #report(): void {
    const { number, send, channel } = this.#options;
    const nowMs = channel.clock.nowMs();
    if (nowMs - this.#reportedMs < progressMs) return;
    this.#reportedMs = nowMs;
    send({
      kind: 'progress',
      runId: number,
      completed: this.#done - this.#failed,
      failed: this.#failed,
      summary: undefined,
    });
  }

  #end(outcome: 'completed' | 'failed' | 'cancelled', code?: string): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    const { number, send, observed } = this.#options;
    const totals = { completed: this.#done - this.#failed, failed: this.#failed };
    observed.ended(outcome, totals);
    const output = outcome === 'completed' ? new TextEncoder().encode(JSON.stringify(this.#output())) : undefined;
    const why = code === undefined ? undefined : 'the fake code fails';
    const found = this.#hasFound() ? true : undefined;
    send({
      kind: 'ended',
      runId: number,
      outcome,
      ...totals,
      summary: undefined,
      output,
      code,
      message: why,
      found,
      tainted: undefined,
      failures: undefined,
    });
  }

  #output(): unknown {
    const { spec } = this.#options;
    const { batch, style, hasSetup } = this.#facts;
    const data = hasSetup ? setupData(spec.job, spec.workflow) : undefined;
    if (spec.phase === 'plan') return planOutput(data, batch?.items === undefined ? this.#behaviour.items : undefined);
    if (style === 'load' || spec.phase === 'finish') return data ?? null;
    const resultOf = (item: number): ItemResult => ({ item, run: this.#options.observed.run });
    if (this.#hasFound()) {
      const index = this.#behaviour.finds ?? -1;
      return { index, value: resultOf(index) };
    }
    return Array.from({ length: this.#count }, (_, at) => resultOf(this.#from + at));
  }

  #schedule(delayMs: number, run: () => void): void {
    this.#cancel = this.#options.channel.clock.schedule(delayMs, () => {
      if (!this.hasEnded) run();
    });
  }
}

function planOutput(data: unknown, items: number | undefined): PlanOutput {
  return { ...(data === undefined ? {} : { data }), ...(items === undefined ? {} : { items: { count: items } }) };
}

function countOf(spec: UnitSpec, { load, batch }: WorkflowFacts, behaviour: FakeCodeBehaviour): number {
  if (spec.phase === 'plan' || spec.phase === 'finish') return 0;
  if (batch !== undefined) return spec.items?.count ?? batch.items ?? behaviour.items ?? 0;
  const users = spec.users?.count ?? load?.vus ?? 1;
  const inTime = Math.floor((load?.durationMs ?? 0) / behaviour.itemMs) * users;
  return spec.iterations ?? load?.iterations ?? inTime;
}
