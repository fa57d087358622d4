/**
 * The runner's side of the pipe: executes one run at a time, reports progress and exactly one end per run. Caches
 * imported bundles.
 */
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import type { ProgramEndpoint } from '../../base/ports.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { encodeSummary } from '../../jobs/report/summary-codec.ts';
import {
  type RunnerEvent,
  type RunnerCommand,
  runnerEventCodec,
  runnerCommandCodec,
} from '../../jobs/runner-protocol.ts';
import { type UnitSpec, decodeUnitSpec } from '../../jobs/unit-spec.ts';
import type { WorkflowFacts } from '../../jobs/workflow-facts.ts';
import { type CheckedWorkflow, checkedWorkflowOf } from '../definition/checked-workflow.ts';
import { exportedWorkflows } from '../definition/fact-derivation.ts';
import type { OpenHttp } from '../definition/http-types.ts';
import { ProgressReporter } from '../execution/progress-reporter.ts';
import type { UnitRunSpec } from '../execution/run-scope.ts';
import { truncateUtf8, describeThrown } from '../execution/user-errors.ts';
import { UnitExecution, type UnitExecutionEnd } from '../execution/unit-execution.ts';

export type RunnerPorts = {
  readonly channel: ProgramEndpoint;
  readonly openHttp: OpenHttp;
  /** Throws what the code throws. */
  importBundle(sha256: string, code: Uint8Array): Promise<object>;
  /** This process cannot be used for another run. */
  endProcess(why: string): void;
};

type RunWord = RunnerCommand & { readonly kind: 'run' };
type Current = { readonly run: number; unit: UnitExecution | undefined; stopped: string | undefined };

const bundlesMax = 64;
/** Further runs that wait here, so that the next one begins without a way to the worker and back. */
const aheadMax = 64;
const whyBytesMax = 4_000;
const nothing = {
  summary: undefined,
  output: undefined,
  code: undefined,
  message: undefined,
  found: undefined,
  tainted: undefined,
  failures: undefined,
};

export class Runner {
  readonly #ports: RunnerPorts;
  readonly #channel: ProgramEndpoint;
  readonly #bundles = new Map<string, ReadonlyMap<string, CheckedWorkflow>>();
  #facts: { readonly text: string; readonly facts: WorkflowFacts } | undefined;
  #current: Current | undefined;
  #prefetched: RunWord[] = [];
  /** Code of a run goes on although it is over: nothing begins beside it, and the worker ends this process. */
  #isTainted = false;

  constructor(ports: RunnerPorts) {
    this.#ports = ports;
    this.#channel = ports.channel;
    this.#channel.receive((body) => this.#received(body));
    this.#send({ kind: 'ready', prefetch: aheadMax });
  }

  /** Something that nobody waits for: a late promise, a callback of the author. While a run is on it is told with it. */
  uncaught(error: unknown): void {
    this.#current?.unit?.run.recordError('(uncaught)', error);
  }

  #received(body: Uint8Array): void {
    let word: RunnerCommand;
    try {
      word = runnerCommandCodec.decode(body);
    } catch (error) {
      return this.#ports.endProcess(`it was sent what it does not understand: ${describeThrown(error)}`);
    }
    return this.#heard(word);
  }

  #heard(word: RunnerCommand): void {
    if (word.kind === 'run') {
      if (this.#prefetched.length > aheadMax) return this.#ports.endProcess('it was given more runs than it keeps');
      if (this.#current === undefined && !this.#isTainted) void this.#perform(word);
      else this.#prefetched.push(word);
    } else if (this.#current?.run === word.runId) {
      this.#current.stopped = word.reason;
      this.#current.unit?.stop(word.reason);
    } else if (this.#prefetched.some(({ runId }) => runId === word.runId)) {
      this.#prefetched = this.#prefetched.filter(({ runId }) => runId !== word.runId);
      this.#send({ ...nothing, kind: 'ended', runId: word.runId, outcome: 'cancelled', completed: 0, failed: 0 });
    }
    return undefined;
  }

  async #perform(word: RunWord): Promise<void> {
    const current: Current = { run: word.runId, unit: undefined, stopped: undefined };
    this.#current = current;
    try {
      const spec = await this.#specOf(word);
      await this.#execute(current, spec);
    } catch (error) {
      const known = isRemusterError(error) ? error : new RemusterError('INTERNAL', describeThrown(error));
      this.#ended(current, { outcome: 'failed', error: { code: known.code, why: known.message } });
    }
    this.#isTainted = current.unit?.isTainted === true;
    if (this.#isTainted) return;
    const next = this.#prefetched.shift();
    if (next !== undefined) void this.#perform(next);
  }

  async #execute(current: Current, spec: UnitRunSpec): Promise<void> {
    if (current.stopped !== undefined) return this.#ended(current, { outcome: 'cancelled' });
    const { run } = current;
    const { clock } = this.#channel;
    const unit = new UnitExecution(spec, {
      clock,
      openHttp: this.#ports.openHttp,
      say: (level, text) => this.#send({ kind: 'log', runId: run, level, text }),
    });
    current.unit = unit;
    this.#send({ kind: 'started', runId: run });
    const ticks = new ProgressReporter(clock, unit.run.summary, (summary) => {
      const { iterations, failed } = unit.run.summary;
      this.#send({ kind: 'progress', runId: run, completed: iterations - failed, failed, summary });
    });
    let end: UnitExecutionEnd;
    try {
      end = await unit.execute();
    } finally {
      ticks.stop();
    }
    return this.#ended(current, end);
  }

  /** Exactly once for each run. What is too large to be said is a failure that says so. */
  #ended(current: Current, { outcome, output, found, failures, error }: UnitExecutionEnd): void {
    const { run } = current;
    this.#current = undefined;
    const [next] = this.#prefetched;
    // Its code is here: it begins before anything else happens, and says so.
    const isMore = next !== undefined && next.code === undefined && current.unit?.isTainted !== true;
    const summary = current.unit?.run.summary;
    const failed = summary?.failed ?? 0;
    const completed = (summary?.iterations ?? 0) - failed;
    try {
      const encoded = output === undefined ? undefined : encoder.encode(output);
      if ((encoded?.length ?? 0) + (failures?.length ?? 0) > jobLimits.resultBytesMax)
        throw new RemusterError('TOO_LARGE', `results and failures are more than ${jobLimits.resultBytesMax} bytes`);
      const word: RunnerEvent = {
        kind: 'ended',
        runId: run,
        outcome,
        completed,
        failed,
        summary: summary && encodeSummary(summary),
        output: encoded,
        code: error?.code,
        message: error && truncateUtf8(error.why, whyBytesMax),
        found,
        tainted: current.unit?.isTainted || undefined,
        failures,
      };
      this.#send(word, isMore);
    } catch (thrown) {
      const known = isRemusterError(thrown) ? thrown : new RemusterError('INTERNAL', describeThrown(thrown));
      const message = truncateUtf8(`what it counted or gave cannot be sent: ${known.message}`, whyBytesMax);
      this.#send({
        ...nothing,
        kind: 'ended',
        runId: run,
        outcome: 'failed',
        completed,
        failed,
        code: known.code,
        message,
      });
    }
  }

  async #specOf(word: RunWord): Promise<UnitRunSpec> {
    const order = decodeUnitSpec(word.spec);
    const known = this.#bundles.get(order.bundle) ?? (await this.#imported(order, word.code));
    const facts = this.#factsOf(order.facts);
    const defined = known.get(facts.name);
    if (defined === undefined) throw new RemusterError('BUNDLE_INVALID', `there is no workflow "${facts.name}" in it`);
    if (defined.facts.style !== facts.style)
      throw new RemusterError('BUNDLE_INVALID', `the workflow "${facts.name}" is no ${facts.style} workflow`);
    return { order, facts, defined, fence: String(word.fence ?? 0n) };
  }

  async #imported(order: UnitSpec, code: Uint8Array | undefined): Promise<ReadonlyMap<string, CheckedWorkflow>> {
    if (code === undefined) throw new RemusterError('BUNDLE_INVALID', 'its code did not come with it');
    if (this.#bundles.size >= bundlesMax)
      throw new RemusterError('CAPACITY', `a runner keeps the code of ${bundlesMax} jobs and no more`);
    const byName = new Map<string, CheckedWorkflow>();
    try {
      const namespace = await this.#ports.importBundle(order.bundle, code);
      for (const definition of exportedWorkflows(namespace)) {
        const defined = checkedWorkflowOf(definition);
        if (defined !== undefined) byName.set(definition.name, defined);
      }
    } catch (error) {
      throw new RemusterError('BUNDLE_INVALID', describeThrown(error));
    }
    this.#bundles.set(order.bundle, byName);
    return byName;
  }

  /** Units of one workflow come with the same facts, again and again. */
  #factsOf(text: string): WorkflowFacts {
    if (this.#facts?.text !== text) this.#facts = { text, facts: JSON.parse(text) as WorkflowFacts };
    return this.#facts.facts;
  }

  #send(word: RunnerEvent, isMore = false): void {
    this.#channel.send(runnerEventCodec.encode(word), isMore);
  }
}

const encoder = new TextEncoder();
