/**
 * A runner's side of the pipe: takes runs, one at a time, says how far they are and how they ended. Code that it was
 * given once is kept for further runs. Everything that the code does ends here as words, or with the process.
 */
import { RemusterError, isRemusterError } from '../base/errors.ts';
import type { ProgramEndpoint } from '../base/ports.ts';
import { encodeSummary } from '../jobs/report/summary-codec.ts';
import { type FromRunner, type ToRunner, fromRunnerCodec, toRunnerCodec } from '../jobs/runner-words.ts';
import { type UnitOrder, decodeOrder } from '../jobs/unit-words.ts';
import type { WorkflowFacts } from '../jobs/workflow-facts.ts';
import { type Defined, definedOf } from './definition.ts';
import { workflowsIn } from './facts.ts';
import type { OpenHttp } from './http-port.ts';
import { ProgressTicks } from './progress.ts';
import type { RunSpec } from './run.ts';
import { boundedText, toldOf } from './thrown.ts';
import { Unit, type UnitEnd } from './unit.ts';

export type RunnerPorts = {
  readonly channel: ProgramEndpoint;
  readonly openHttp: OpenHttp;
  /** Throws what the code throws. */
  importBundle(sha256: string, code: Uint8Array): Promise<object>;
  /** This process cannot be used for another run. */
  retire(why: string): void;
};

type RunWord = ToRunner & { readonly kind: 'run' };
type Current = { readonly run: number; unit: Unit | undefined; stopped: string | undefined };

const bundlesMax = 64;
/** Further runs that wait here, so that the next one begins without a way to the worker and back. */
const aheadMax = 64;
const whyBytesMax = 4_000;
const nothing = {
  summary: undefined,
  output: undefined,
  code: undefined,
  why: undefined,
  found: undefined,
  spent: undefined,
};

export class Runner {
  readonly #ports: RunnerPorts;
  readonly #channel: ProgramEndpoint;
  readonly #bundles = new Map<string, ReadonlyMap<string, Defined>>();
  #facts: { readonly text: string; readonly facts: WorkflowFacts } | undefined;
  #current: Current | undefined;
  #ahead: RunWord[] = [];
  /** Code of a run goes on although it is over: nothing begins beside it, and the worker ends this process. */
  #isSpent = false;

  constructor(ports: RunnerPorts) {
    this.#ports = ports;
    this.#channel = ports.channel;
    this.#channel.receive((body) => this.#received(body));
    this.#send({ kind: 'ready', ahead: aheadMax });
  }

  /** Something that nobody waits for: a late promise, a callback of the author. While a run is on it is told with it. */
  uncaught(error: unknown): void {
    this.#current?.unit?.run.wentWrong('(uncaught)', error);
  }

  #received(body: Uint8Array): void {
    let word: ToRunner;
    try {
      word = toRunnerCodec.decode(body);
    } catch (error) {
      return this.#ports.retire(`it was sent what it does not understand: ${toldOf(error)}`);
    }
    return this.#heard(word);
  }

  #heard(word: ToRunner): void {
    if (word.kind === 'run') {
      if (this.#ahead.length > aheadMax) return this.#ports.retire('it was given more runs than it keeps');
      if (this.#current === undefined && !this.#isSpent) void this.#perform(word);
      else this.#ahead.push(word);
    } else if (this.#current?.run === word.run) {
      this.#current.stopped = word.why;
      this.#current.unit?.stop(word.why);
    } else if (this.#ahead.some(({ run }) => run === word.run)) {
      this.#ahead = this.#ahead.filter(({ run }) => run !== word.run);
      this.#send({ ...nothing, kind: 'ended', run: word.run, what: 'cancelled', completed: 0, failed: 0 });
    }
    return undefined;
  }

  async #perform(word: RunWord): Promise<void> {
    const current: Current = { run: word.run, unit: undefined, stopped: undefined };
    this.#current = current;
    try {
      const spec = await this.#specOf(word);
      await this.#execute(current, spec);
    } catch (error) {
      const known = isRemusterError(error) ? error : new RemusterError('INTERNAL', toldOf(error));
      this.#ended(current, { what: 'failed', error: { code: known.code, why: known.message } });
    }
    this.#isSpent = current.unit?.isAbandoned === true;
    if (this.#isSpent) return;
    const next = this.#ahead.shift();
    if (next !== undefined) void this.#perform(next);
  }

  async #execute(current: Current, spec: RunSpec): Promise<void> {
    if (current.stopped !== undefined) return this.#ended(current, { what: 'cancelled' });
    const { run } = current;
    const { clock } = this.#channel;
    const unit = new Unit(spec, {
      clock,
      openHttp: this.#ports.openHttp,
      say: (level, text) => this.#send({ kind: 'said', run, level, text }),
    });
    current.unit = unit;
    this.#send({ kind: 'started', run });
    const ticks = new ProgressTicks(clock, unit.run.summary, (summary) => {
      const { iterations: completed, failed } = unit.run.summary;
      this.#send({ kind: 'progress', run, completed, failed, summary });
    });
    let end: UnitEnd;
    try {
      end = await unit.execute();
    } finally {
      ticks.stop();
    }
    return this.#ended(current, end);
  }

  /** Exactly once for each run. What is too large to be said is a failure that says so. */
  #ended(current: Current, { what, output, found, error }: UnitEnd): void {
    const { run } = current;
    this.#current = undefined;
    const [next] = this.#ahead;
    // Its code is here: it begins before anything else happens, and says so.
    const isMore = next !== undefined && next.code === undefined && current.unit?.isAbandoned !== true;
    const summary = current.unit?.run.summary;
    const completed = summary?.iterations ?? 0;
    const failed = summary?.failed ?? 0;
    try {
      const word: FromRunner = {
        kind: 'ended',
        run,
        what,
        completed,
        failed,
        summary: summary && encodeSummary(summary),
        output: output === undefined ? undefined : encoder.encode(output),
        code: error?.code,
        why: error && boundedText(error.why, whyBytesMax),
        found,
        spent: current.unit?.isAbandoned || undefined,
      };
      this.#send(word, isMore);
    } catch (thrown) {
      const known = isRemusterError(thrown) ? thrown : new RemusterError('INTERNAL', toldOf(thrown));
      const why = boundedText(`what it counted or gave cannot be sent: ${known.message}`, whyBytesMax);
      this.#send({ ...nothing, kind: 'ended', run, what: 'failed', completed, failed, code: known.code, why });
    }
  }

  async #specOf(word: RunWord): Promise<RunSpec> {
    const order = decodeOrder(word.order);
    const known = this.#bundles.get(order.bundle) ?? (await this.#imported(order, word.code));
    const facts = this.#factsOf(order.facts);
    const defined = known.get(facts.name);
    if (defined === undefined) throw new RemusterError('BUNDLE_INVALID', `there is no workflow "${facts.name}" in it`);
    if (defined.facts.style !== facts.style)
      throw new RemusterError('BUNDLE_INVALID', `the workflow "${facts.name}" is no ${facts.style} workflow`);
    return { order, facts, defined, fence: String(word.fence ?? 0n) };
  }

  async #imported(order: UnitOrder, code: Uint8Array | undefined): Promise<ReadonlyMap<string, Defined>> {
    if (code === undefined) throw new RemusterError('BUNDLE_INVALID', 'its code did not come with it');
    if (this.#bundles.size >= bundlesMax)
      throw new RemusterError('CAPACITY', `a runner keeps the code of ${bundlesMax} jobs and no more`);
    const byName = new Map<string, Defined>();
    try {
      const namespace = await this.#ports.importBundle(order.bundle, code);
      for (const definition of workflowsIn(namespace)) {
        const defined = definedOf(definition);
        if (defined !== undefined) byName.set(definition.name, defined);
      }
    } catch (error) {
      throw new RemusterError('BUNDLE_INVALID', toldOf(error));
    }
    this.#bundles.set(order.bundle, byName);
    return byName;
  }

  /** Units of one workflow come with the same facts, again and again. */
  #factsOf(text: string): WorkflowFacts {
    if (this.#facts?.text !== text) this.#facts = { text, facts: JSON.parse(text) as WorkflowFacts };
    return this.#facts.facts;
  }

  #send(word: FromRunner, isMore = false): void {
    this.#channel.send(fromRunnerCodec.encode(word), isMore);
  }
}

const encoder = new TextEncoder();
