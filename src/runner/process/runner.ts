/**
 * The runner's end of the pipe to its worker: executes one run at a time, reports its progress and exactly one end per
 * run. Prefetches runs and caches imported bundles.
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
  /** Rejects with the error of the code. */
  importBundle(sha256: string, code: Uint8Array): Promise<object>;
  /** Called when this process must not execute another run. */
  endProcess(why: string): void;
};

type RunCommand = RunnerCommand & { readonly kind: 'run' };
type CurrentRun = { readonly runId: number; unit: UnitExecution | undefined; stopReason: string | undefined };

const bundlesMax = 64;
/** Runs that wait here, so that the next one starts without a round trip to the worker. */
const prefetchMax = 64;
const messageBytesMax = 4_000;
const emptyEnd = {
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
  #current: CurrentRun | undefined;
  #prefetched: RunCommand[] = [];
  /** Code of an ended run is still running: no other run starts, and the worker ends this process. */
  #isTainted = false;

  constructor(ports: RunnerPorts) {
    this.#ports = ports;
    this.#channel = ports.channel;
    this.#channel.receive((body) => this.#onMessage(body));
    this.#send({ kind: 'ready', prefetch: prefetchMax });
  }

  /** An error in a callback or a promise that is not awaited; recorded if a run is under way. */
  onUncaught(error: unknown): void {
    this.#current?.unit?.run.recordError('(uncaught)', error);
  }

  #onMessage(body: Uint8Array): void {
    let command: RunnerCommand;
    try {
      command = runnerCommandCodec.decode(body);
    } catch (error) {
      return this.#ports.endProcess(`the runner got an invalid command: ${describeThrown(error)}`);
    }
    return this.#onCommand(command);
  }

  #onCommand(command: RunnerCommand): void {
    if (command.kind === 'run') {
      if (this.#prefetched.length > prefetchMax)
        return this.#ports.endProcess(`the runner got more than ${prefetchMax} prefetched runs`);
      if (this.#current === undefined && !this.#isTainted) void this.#startRun(command);
      else this.#prefetched.push(command);
    } else if (this.#current?.runId === command.runId) {
      this.#current.stopReason = command.reason;
      this.#current.unit?.stop(command.reason);
    } else if (this.#prefetched.some(({ runId }) => runId === command.runId)) {
      this.#prefetched = this.#prefetched.filter(({ runId }) => runId !== command.runId);
      this.#send({ ...emptyEnd, kind: 'ended', runId: command.runId, outcome: 'cancelled', completed: 0, failed: 0 });
    }
    return undefined;
  }

  async #startRun(command: RunCommand): Promise<void> {
    const current: CurrentRun = { runId: command.runId, unit: undefined, stopReason: undefined };
    this.#current = current;
    try {
      const spec = await this.#specOf(command);
      await this.#execute(current, spec);
    } catch (error) {
      const { code, message } = codedError(error);
      this.#endRun(current, { outcome: 'failed', error: { code, message } });
    }
    this.#isTainted = current.unit?.isTainted === true;
    if (this.#isTainted) return;
    const next = this.#prefetched.shift();
    if (next !== undefined) void this.#startRun(next);
  }

  async #execute(current: CurrentRun, spec: UnitRunSpec): Promise<void> {
    if (current.stopReason !== undefined) return this.#endRun(current, { outcome: 'cancelled' });
    const { runId } = current;
    const { clock } = this.#channel;
    const unit = new UnitExecution(spec, {
      clock,
      openHttp: this.#ports.openHttp,
      log: (level, text) => this.#send({ kind: 'log', runId, level, text }),
    });
    current.unit = unit;
    this.#send({ kind: 'started', runId });
    const reporter = new ProgressReporter(clock, unit.run.summary, (summary) => {
      const { iterations, failed } = unit.run.summary;
      this.#send({ kind: 'progress', runId, completed: iterations - failed, failed, summary });
    });
    let end: UnitExecutionEnd;
    try {
      end = await unit.execute();
    } finally {
      reporter.stop();
    }
    return this.#endRun(current, end);
  }

  /** Reports the end, once per run. An end that is too large to send is reported as a failure. */
  #endRun(current: CurrentRun, { outcome, output, found, failures, error }: UnitExecutionEnd): void {
    const { runId } = current;
    this.#current = undefined;
    const [next] = this.#prefetched;
    // With its bundle cached the next run starts at once, and its `started` follows in the same write.
    const isMore = next !== undefined && next.code === undefined && current.unit?.isTainted !== true;
    const summary = current.unit?.run.summary;
    const failed = summary?.failed ?? 0;
    const completed = (summary?.iterations ?? 0) - failed;
    try {
      const encoded = output === undefined ? undefined : encoder.encode(output);
      if ((encoded?.length ?? 0) + (failures?.length ?? 0) > jobLimits.resultBytesMax)
        throw new RemusterError('TOO_LARGE', `results and failures have more than ${jobLimits.resultBytesMax} bytes`);
      const event: RunnerEvent = {
        kind: 'ended',
        runId,
        outcome,
        completed,
        failed,
        summary: summary && encodeSummary(summary),
        output: encoded,
        code: error?.code,
        message: error && truncateUtf8(error.message, messageBytesMax),
        found,
        tainted: current.unit?.isTainted || undefined,
        failures,
      };
      this.#send(event, isMore);
    } catch (thrown) {
      const { code, message: reason } = codedError(thrown);
      const message = truncateUtf8(`the summary or the results cannot be sent: ${reason}`, messageBytesMax);
      this.#send({ ...emptyEnd, kind: 'ended', runId, outcome: 'failed', completed, failed, code, message });
    }
  }

  async #specOf(command: RunCommand): Promise<UnitRunSpec> {
    const unit = decodeUnitSpec(command.spec);
    const workflows = this.#bundles.get(unit.bundle) ?? (await this.#import(unit, command.code));
    const facts = this.#factsOf(unit.facts);
    const workflow = workflows.get(facts.name);
    if (workflow === undefined) throw new RemusterError('BUNDLE_INVALID', `the bundle has no workflow "${facts.name}"`);
    if (workflow.facts.style !== facts.style)
      throw new RemusterError('BUNDLE_INVALID', `the workflow "${facts.name}" is not a ${facts.style} workflow`);
    return { unit, facts, workflow, fence: String(command.fence ?? 0n) };
  }

  async #import(unit: UnitSpec, code: Uint8Array | undefined): Promise<ReadonlyMap<string, CheckedWorkflow>> {
    if (code === undefined)
      throw new RemusterError('BUNDLE_INVALID', 'the first run of a bundle came without its code');
    if (this.#bundles.size >= bundlesMax)
      throw new RemusterError('CAPACITY', `a runner keeps at most ${bundlesMax} bundles`);
    const byName = new Map<string, CheckedWorkflow>();
    try {
      const namespace = await this.#ports.importBundle(unit.bundle, code);
      for (const definition of exportedWorkflows(namespace)) {
        const workflow = checkedWorkflowOf(definition);
        if (workflow !== undefined) byName.set(definition.name, workflow);
      }
    } catch (error) {
      throw new RemusterError('BUNDLE_INVALID', describeThrown(error));
    }
    this.#bundles.set(unit.bundle, byName);
    return byName;
  }

  /** Caches the last facts: consecutive units mostly have the same ones. */
  #factsOf(text: string): WorkflowFacts {
    if (this.#facts?.text !== text) this.#facts = { text, facts: JSON.parse(text) as WorkflowFacts };
    return this.#facts.facts;
  }

  #send(event: RunnerEvent, isMore = false): void {
    this.#channel.send(runnerEventCodec.encode(event), isMore);
  }
}

function codedError(thrown: unknown): RemusterError {
  return isRemusterError(thrown) ? thrown : new RemusterError('INTERNAL', describeThrown(thrown));
}

const encoder = new TextEncoder();
