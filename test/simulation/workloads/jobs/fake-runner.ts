/**
 * A fake runner program: speaks the runner protocol on virtual time and behaves as its fake code says. Reports every
 * action to an observer first.
 */
import { Random } from '../../../../src/base/random.ts';
import type { Cancel, ProgramEndpoint } from '../../../../src/base/ports.ts';
import {
  type RunnerEvent,
  runnerEventCodec,
  type RunnerCommand,
  runnerCommandCodec,
} from '../../../../src/jobs/runner-protocol.ts';
import { decodeUnitSpec, type PlanOutput, type UnitSpec } from '../../../../src/jobs/unit-spec.ts';
import type { WorkflowFacts } from '../../../../src/jobs/workflow-facts.ts';
import type { ItemCounts } from '../../checking/job-observations.ts';
import { type FakeCodeBehaviour, decodeFakeCode, type FakeCode } from './fake-code.ts';

/** One run of a unit, as its witness knows it. */
export type ObservedRun = {
  readonly run: number;
  /** How often this unit has been begun before, anywhere. */
  readonly runsBefore: number;
  acted(): void;
  ended(how: string, totals: ItemCounts): void;
  inconsistent(why: string): void;
};

export type RunnerObserver = {
  started(order: UnitSpec, bytes: Uint8Array, under: Pick<RunWord, 'attempt' | 'fence'>): ObservedRun;
};

type RunWord = Extract<RunnerCommand, { readonly kind: 'run' }>;

/** What an item gives: which it is, and whose word that is. */
export type ItemResult = { readonly item: number; readonly run: number };

/** What setup hands to all units of its workflow. */
function setupData(job: string, workflow: number): string {
  return `${job}/${workflow}`;
}

const ticksMax = 30;
const hangTickMs = 400;
const progressMs = 100;
const stoppedMsMax = 20;

export function fakeRunner(channel: ProgramEndpoint, witness: RunnerObserver): void {
  const runner = new Runner(channel, witness);
  channel.receive((body) => runner.heard(runnerCommandCodec.decode(body)));
  channel.send(runnerEventCodec.encode({ kind: 'ready', prefetch: undefined }));
}

class Runner {
  readonly #channel: ProgramEndpoint;
  readonly #witness: RunnerObserver;
  readonly #codes = new Map<string, FakeCode>();
  #submitter: string | undefined;
  #now: { readonly number: number; readonly work: UnitWork } | undefined;

  constructor(channel: ProgramEndpoint, witness: RunnerObserver) {
    this.#channel = channel;
    this.#witness = witness;
  }

  heard(word: RunnerCommand): void {
    if (word.kind === 'run') return this.#run(word);
    if (this.#now?.number === word.runId) this.#now.work.stop();
  }

  #run({ runId: number, spec: bytes, code, ...under }: RunWord): void {
    const order = decodeUnitSpec(bytes);
    const witnessed = this.#witness.started(order, bytes, under);
    if (code !== undefined) this.#codes.set(order.bundle, decodeFakeCode(code));
    const known = this.#codes.get(order.bundle);
    if (this.#now?.work.isOver === false) witnessed.inconsistent('its runner runs something else');
    if (known === undefined) return witnessed.inconsistent('nobody gave the code to its runner');
    if ((this.#submitter ??= order.submitter) !== order.submitter)
      witnessed.inconsistent("its runner is somebody else's");
    const say = (word: RunnerEvent): void => this.#channel.send(runnerEventCodec.encode(word));
    const work = new UnitWork({ number, order, known, witnessed, say, channel: this.#channel });
    this.#now = { number, work };
    work.start();
  }
}

type WorkSpec = {
  readonly number: number;
  readonly order: UnitSpec;
  readonly known: FakeCode;
  readonly witnessed: ObservedRun;
  readonly say: (word: RunnerEvent) => void;
  readonly channel: ProgramEndpoint;
};

class UnitWork {
  readonly #spec: WorkSpec;
  readonly #facts: WorkflowFacts;
  readonly #behaviour: FakeCodeBehaviour;
  readonly #random: Random;
  /** Items of a batch, iterations of a load. */
  readonly #from: number;
  readonly #count: number;
  /** Users of a load work side by side. */
  readonly #atOnce: number;
  /** Items or iterations that are over; some of them failed. */
  #done = 0;
  #failed = 0;
  #toldMs: number;
  #cancel: Cancel | undefined;
  isOver = false;

  constructor(spec: WorkSpec) {
    const { order, known, witnessed, channel } = spec;
    this.#spec = spec;
    this.#facts = JSON.parse(order.facts) as WorkflowFacts;
    this.#behaviour = known.workflows[this.#facts.name] ?? { itemMs: 10 };
    this.#random = new Random(`${order.seed}/${witnessed.run}`);
    this.#toldMs = channel.clock.nowMs();
    this.#from = order.items?.from ?? 0;
    this.#atOnce = this.#facts.load === undefined ? 1 : (order.users?.count ?? this.#facts.load.vus);
    this.#count = countOf(order, this.#facts, this.#behaviour);
  }

  start(): void {
    const { number, say } = this.#spec;
    say({ kind: 'started', runId: number });
    this.#checkOrder();
    this.#tick();
  }

  stop(): void {
    if (this.isOver || this.#trouble() === 'deaf') return;
    this.#cancel?.();
    this.#later(this.#random.between(0, stoppedMsMax), () => this.#end('cancelled'));
  }

  /** What was handed to it by those before it. */
  #checkOrder(): void {
    const { order, known, witnessed } = this.#spec;
    const context = JSON.parse(order.context) as Readonly<Record<string, unknown>>;
    for (const before of this.#facts.after)
      if (context[before] === undefined && known.workflows[before]?.handsOn !== false)
        witnessed.inconsistent(`it has nothing of ${before}, which came before it`);
    if ((order.phase !== 'work' && order.phase !== 'finish') || !this.#facts.hasSetup) return;
    const wanted = JSON.stringify(setupData(order.job, order.workflow));
    // After a setup that failed there is nothing to hand on.
    if (order.data !== wanted && (order.phase === 'work' || order.data !== undefined))
      witnessed.inconsistent(`it got ${order.data ?? 'nothing'} from setup, not ${wanted}`);
  }

  #trouble(): FakeCodeBehaviour['trouble'] {
    const { trouble, troubleRuns = Infinity, troubleUnit } = this.#behaviour;
    const { order, witnessed } = this.#spec;
    if (witnessed.runsBefore >= troubleRuns || order.phase === 'finish') return undefined;
    const isMeant = order.phase === 'plan' ? trouble === 'throws' : (troubleUnit ?? order.unit) === order.unit;
    return isMeant ? trouble : undefined;
  }

  #tick(): void {
    const trouble = this.#trouble();
    const isStuck = trouble === 'hangs' || trouble === 'deaf';
    const step = Math.max(1, Math.ceil(this.#count / ticksMax));
    const rounds = Math.max(1, Math.min(step, this.#left()) / this.#atOnce);
    const takes = this.#random.between(0.5, 1.5) * this.#behaviour.itemMs * rounds;
    this.#later(isStuck && this.#done > 0 ? hangTickMs : takes, () => {
      this.#spec.witnessed.acted();
      if (trouble === 'throws') return this.#end('failed', 'WORKFLOW_FAILED');
      if (isStuck && this.#done > 0) return this.#tick();
      this.#work(Math.min(step, this.#left()));
      if (trouble === 'dies') throw new Error('the code has ended its process');
      if (trouble === 'babbles') return this.#spec.channel.send(Uint8Array.of(9, 9, 9));
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
    const { number, say, channel } = this.#spec;
    const nowMs = channel.clock.nowMs();
    if (nowMs - this.#toldMs < progressMs) return;
    this.#toldMs = nowMs;
    say({
      kind: 'progress',
      runId: number,
      completed: this.#done - this.#failed,
      failed: this.#failed,
      summary: undefined,
    });
  }

  #end(what: 'completed' | 'failed' | 'cancelled', code?: string): void {
    if (this.isOver) return;
    this.isOver = true;
    const { number, say, witnessed } = this.#spec;
    const totals = { completed: this.#done - this.#failed, failed: this.#failed };
    witnessed.ended(what, totals);
    const output = what === 'completed' ? new TextEncoder().encode(JSON.stringify(this.#output())) : undefined;
    const why = code === undefined ? undefined : 'the code says so';
    const found = this.#hasFound() ? true : undefined;
    say({
      kind: 'ended',
      runId: number,
      outcome: what,
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
    const { order } = this.#spec;
    const { batch, style, hasSetup } = this.#facts;
    const data = hasSetup ? setupData(order.job, order.workflow) : undefined;
    if (order.phase === 'plan') return planOutput(data, batch?.items === undefined ? this.#behaviour.items : undefined);
    if (style === 'load' || order.phase === 'finish') return data ?? null;
    const resultOf = (item: number): ItemResult => ({ item, run: this.#spec.witnessed.run });
    if (this.#hasFound()) {
      const index = this.#behaviour.finds ?? -1;
      return { index, value: resultOf(index) };
    }
    return Array.from({ length: this.#count }, (_, at) => resultOf(this.#from + at));
  }

  #later(delayMs: number, run: () => void): void {
    this.#cancel = this.#spec.channel.clock.schedule(delayMs, () => {
      if (!this.isOver) run();
    });
  }
}

function planOutput(data: unknown, items: number | undefined): PlanOutput {
  return { ...(data === undefined ? {} : { data }), ...(items === undefined ? {} : { items: { count: items } }) };
}

function countOf(order: UnitSpec, { load, batch }: WorkflowFacts, behaviour: FakeCodeBehaviour): number {
  if (order.phase === 'plan' || order.phase === 'finish') return 0;
  if (batch !== undefined) return order.items?.count ?? batch.items ?? behaviour.items ?? 0;
  const users = order.users?.count ?? load?.vus ?? 1;
  const inTime = Math.floor((load?.durationMs ?? 0) / behaviour.itemMs) * users;
  return order.iterations ?? load?.iterations ?? inTime;
}
