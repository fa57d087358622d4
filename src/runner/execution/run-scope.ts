/**
 * State shared by all parts of one unit run: data, summary, HTTP, sleeps, abort signal. After an abort nothing is
 * counted. Does not schedule work.
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
  log(level: LogLevel, text: string): void;
};

export type UnitRunSpec = {
  readonly unit: UnitSpec;
  readonly facts: WorkflowFacts;
  readonly workflow: CheckedWorkflow;
  readonly fence: string;
};

export const unitLogLinesMax = 1_000;
const logLineBytesMax = 4_000;

/** The variables of the workflow are frozen already (spec-validation.ts). */
function envOf({ workflow, unit }: UnitRunSpec): Readonly<Record<string, string>> {
  if (unit.env.size === 0) return workflow.env;
  return Object.freeze({ ...workflow.env, ...Object.fromEntries(unit.env) });
}

export class RunScope {
  readonly clock: Clock;
  readonly unit: UnitSpec;
  readonly facts: WorkflowFacts;
  readonly workflow: CheckedWorkflow;
  readonly fence: string;
  readonly env: Readonly<Record<string, string>>;
  readonly summary = new Summary();
  readonly yielder: LoopYielder;
  readonly sleeps: AbortableSleeps;
  readonly #ports: RunScopePorts;
  #data: unknown;
  #abort: AbortController | undefined;
  #http: HttpConnections | undefined;
  #earlierResults: Readonly<Record<string, unknown>> | undefined;
  #logLines = 0;
  /** Stopped from outside: no iteration or item starts. */
  isStopped = false;
  /** Running code is aborted, and nothing is counted. */
  isAborted = false;
  stopReason = '';
  onStop: (() => void) | undefined;

  constructor(spec: UnitRunSpec, ports: RunScopePorts) {
    this.unit = spec.unit;
    this.facts = spec.facts;
    this.workflow = spec.workflow;
    this.fence = spec.fence;
    this.clock = ports.clock;
    this.#ports = ports;
    this.yielder = new LoopYielder(ports.clock);
    this.sleeps = new AbortableSleeps(ports.clock);
    this.env = envOf(spec);
    this.#data = spec.unit.data === undefined ? undefined : JSON.parse(spec.unit.data);
  }

  /** The result of setup. */
  get data(): unknown {
    return this.#data;
  }

  /** Through JSON on one core, too: code must not depend on the number of cores. */
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
    if (!this.unit.network)
      throw new RemusterError(
        'FORBIDDEN',
        'this workflow may not use the network: set `network: true` in its definition',
      );
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
    this.#earlierResults ??= JSON.parse(this.unit.context === '' ? '{}' : this.unit.context) as Record<string, unknown>;
    if (Object.hasOwn(this.#earlierResults, name)) return this.#earlierResults[name];
    const { name: own, after } = this.facts;
    const why = after.includes(name)
      ? `workflow "${name}" has no result: a load test returns the result of its \`setup\`, a batch the results of ` +
        `its items (unless it has \`results: false\`), and all together at most ${jobLimits.contextBytesMax} bytes`
      : `"${name}" is not in \`after\` of "${own}": add it there to read its result`;
    throw new RemusterError('BAD_ARGUMENT', why);
  }

  log(level: LogLevel, text: string): void {
    this.#logLines += 1;
    if (this.#logLines < unitLogLinesMax) this.#ports.log(level, truncateUtf8(text, logLineBytesMax));
    else if (this.#logLines === unitLogLinesMax)
      this.#ports.log('warn', `further log lines are dropped: a run may log ${unitLogLinesMax}`);
  }

  /** Counts an error of user code; the summary keeps samples of different errors. */
  recordError(step: string, thrown: unknown): void {
    if (this.isAborted) return;
    this.summary.error(step, truncateUtf8(thrownMessage(thrown), errorBytesMax * 3), () =>
      truncateUtf8(thrownLocation(thrown), errorBytesMax),
    );
  }

  /** Cancels the run from outside; iterations and items that have ended stay counted. */
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
    this.sleeps.abort(why);
    this.close();
  }

  close(): void {
    this.#http?.close();
    this.#http = undefined;
  }
}
