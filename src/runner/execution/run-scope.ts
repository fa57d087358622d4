/**
 * State shared by everything in one unit run: data, summary, HTTP, sleeps, abort signal. After abort nothing is
 * counted. Never decides the order of work.
 */
import { RemusterError } from '../../base/errors.ts';
import { Histogram } from '../../base/histogram.ts';
import type { Clock, LogLevel } from '../../base/ports.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { errorBytesMax } from '../../jobs/report/bounds.ts';
import { Summary } from '../../jobs/report/summary.ts';
import type { UnitSpec } from '../../jobs/unit-spec.ts';
import type { WorkflowFacts } from '../../jobs/workflow-facts.ts';
import type { CheckedWorkflow } from '../definition/checked-workflow.ts';
import type { HttpConnections, HttpRequestRecord, OpenHttp } from '../definition/http-types.ts';
import { LoopYielder } from './loop-yielder.ts';
import { AbortableSleeps } from './abortable-sleeps.ts';
import { truncateUtf8, thrownMessage, thrownLocation } from './user-errors.ts';

export type RunScopePorts = {
  readonly clock: Clock;
  readonly openHttp: OpenHttp;
  say(level: LogLevel, text: string): void;
};

export type UnitRunSpec = {
  readonly order: UnitSpec;
  readonly facts: WorkflowFacts;
  readonly defined: CheckedWorkflow;
  readonly fence: string;
};

const linesMax = 1_000;
const lineBytesMax = 4_000;

/** What is defined is frozen already (spec-check.ts). */
function envOf({ defined, order }: UnitRunSpec): Readonly<Record<string, string>> {
  if (order.env.size === 0) return defined.env;
  return Object.freeze({ ...defined.env, ...Object.fromEntries(order.env) });
}

export class RunScope {
  readonly clock: Clock;
  readonly order: UnitSpec;
  readonly facts: WorkflowFacts;
  readonly defined: CheckedWorkflow;
  readonly fence: string;
  readonly env: Readonly<Record<string, string>>;
  readonly summary = new Summary();
  readonly pacer: LoopYielder;
  readonly sleepers: AbortableSleeps;
  readonly #ports: RunScopePorts;
  #data: unknown;
  #abort: AbortController | undefined;
  #http: HttpConnections | undefined;
  #before: Readonly<Record<string, unknown>> | undefined;
  #lines = 0;
  /** Nothing new begins. */
  isStopped = false;
  /** What is under way is ended, too, and counts no more. */
  isAborted = false;
  stopReason = '';
  /** Told when it is stopped. */
  onStop: (() => void) | undefined;

  constructor(spec: UnitRunSpec, ports: RunScopePorts) {
    this.order = spec.order;
    this.facts = spec.facts;
    this.defined = spec.defined;
    this.fence = spec.fence;
    this.clock = ports.clock;
    this.#ports = ports;
    this.pacer = new LoopYielder(ports.clock);
    this.sleepers = new AbortableSleeps(ports.clock);
    this.env = envOf(spec);
    this.#data = spec.order.data === undefined ? undefined : JSON.parse(spec.order.data);
  }

  /** What setup gave. */
  get data(): unknown {
    return this.#data;
  }

  /** On one core it goes through JSON as well: code must not depend on how many there are. */
  setData(json: string | undefined): void {
    this.#data = json === undefined ? undefined : JSON.parse(json);
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.isAborted) this.#abort.abort(new RemusterError('CANCELLED', this.stopReason));
    }
    return this.#abort.signal;
  }

  get http(): HttpConnections {
    if (this.isAborted) throw new RemusterError('CANCELLED', this.stopReason);
    if (!this.order.network)
      throw new RemusterError('FORBIDDEN', 'this workflow may not use the network: say `network: true` in it');
    return (this.#http ??= this.#ports.openHttp({ clock: this.clock }));
  }

  recordRequest({ durationUs, bytesIn, bytesOut, ok }: HttpRequestRecord): void {
    if (this.isAborted) return;
    const { summary } = this;
    summary.requests += 1;
    if (!ok) summary.requestsFailed += 1;
    summary.bytesIn += bytesIn;
    summary.bytesOut += bytesOut;
    (summary.http ??= new Histogram()).record(durationUs);
  }

  from(name: string): unknown {
    this.#before ??= JSON.parse(this.order.context === '' ? '{}' : this.order.context) as Record<string, unknown>;
    if (Object.hasOwn(this.#before, name)) return this.#before[name];
    const { name: mine, after } = this.facts;
    const why = after.includes(name)
      ? `"${name}" handed nothing on: a load test hands on what its \`setup\` returned, a batch what its items gave ` +
        `(unless it says \`results: false\`), and all together at most ${jobLimits.contextBytesMax} bytes`
      : `"${name}" is not in \`after\` of "${mine}": only what stands there can be read`;
    throw new RemusterError('BAD_ARGUMENT', why);
  }

  log(level: LogLevel, text: string): void {
    this.#lines += 1;
    if (this.#lines < linesMax) this.#ports.say(level, truncateUtf8(text, lineBytesMax));
    else if (this.#lines === linesMax) this.#ports.say('warn', `further lines are left out: more than ${linesMax}`);
  }

  /** Something of the author went wrong: counted, and shown if it is one of few. */
  recordError(step: string, thrown: unknown): void {
    if (this.isAborted) return;
    this.summary.error(step, truncateUtf8(thrownMessage(thrown), errorBytesMax * 3), () =>
      truncateUtf8(thrownLocation(thrown), errorBytesMax),
    );
  }

  /** From outside: everything ends, and nothing counts any more but what has ended. */
  stop(why: string): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.abort(why);
    this.onStop?.();
  }

  abort(why: string): void {
    if (this.isAborted) return;
    this.isAborted = true;
    this.stopReason = why;
    this.#abort?.abort(new RemusterError('CANCELLED', why));
    this.sleepers.abort(why);
    this.close();
  }

  close(): void {
    this.#http?.close();
    this.#http = undefined;
  }
}
