/** A simulated cluster for job stories: real nodes, fake runners, a rule per message. */
import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/base/errors.ts';
import type { Identity, Streams } from '../../../src/base/ports.ts';
import { isTerminalStatus, type JobRequest, type JobView, type JobStatus } from '../../../src/jobs/job-types.ts';
import { type Message, decodeMessage, encodeMessage } from '../../../src/messages/catalogue.ts';
import { peekTag } from '../../../src/messages/codec/codec.ts';
import { type JobMessage, type JobVerb, jobMessages } from '../../../src/messages/jobs.ts';
import type { NodeCore } from '../../../src/node/core/node-core-types.ts';
import {
  simulatedAddress,
  bootSimulatedNode,
  type SimulatedNode,
} from '../../../src/simulation/cluster/simulated-node.ts';
import { JobRequester, type SimulatedJobRequest } from '../../simulation/workloads/jobs/job-requester.ts';
import { jobProperties } from '../../simulation/workloads/jobs/job-properties.ts';
import type { UnitRun } from '../../simulation/checking/job-observations.ts';
import {
  defaultBatchFacts,
  type JobPlan,
  type PlanKind,
  createJobPlan,
  defaultWorkflowFacts,
} from '../../simulation/workloads/jobs/job-plans.ts';
import type { FakeCodeBehaviour } from '../../fakes/fake-code.ts';
import { unitProperties } from '../../simulation/workloads/jobs/unit-properties.ts';
import { resultProperties } from '../../simulation/workloads/jobs/result-properties.ts';
import { tapJobMessages } from '../../simulation/workloads/jobs/message-tap.ts';
import { JobObserver } from '../../simulation/workloads/jobs/job-observer.ts';
import type { PropertyChecker, Observation, WorkloadRun } from '../../simulation/checking/workload.ts';
import { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';
import type { WorkflowFacts } from '../../../src/jobs/workflow-facts.ts';

/**
 * What happens to a message on its way. `loseAnswer`: it is heard, and the answer is lost. `late`: the answer comes
 * when nobody waits any more. `twice`: it is heard two times.
 */
export type MessageFate = 'pass' | 'lose' | 'loseAnswer' | 'late' | 'twice';
export type MessageRule = (message: JobMessage, at: string, from: Identity) => MessageFate;

export type JobsWorldOptions = {
  readonly managers?: number;
  readonly workers?: number;
  readonly cores?: number;
  readonly seed?: number;
};

const waitMsMax = 90_000;
const stepMs = 5;
const lateMs = 20_000;
const askMs = 5_000;
const linesTold = 40;
const later: ReadonlySet<string> = new Set(['NOT_LEADER', 'NO_QUORUM', 'UNREACHABLE', 'DEADLINE', 'NETWORK_TIMEOUT']);
const tags: ReadonlySet<number> = new Set(jobMessages.map(({ tag }) => tag));
/** Those that hold in every story; each judges what was seen, from the first step on. */
const always = { ...unitProperties, ...resultProperties, ...jobProperties };
const notHere = ['healthyJobsComplete', 'noCoreLeaks', 'resultsAreComplete', 'everyJobEnds', 'acceptedJobsAreKept'];

/** A batch of numbers, so many to a unit. */
export function batch(items: number, unitItemsMax: number, cores: number, more: Partial<WorkflowFacts> = {}) {
  return { batch: defaultBatchFacts({ items, unitItemsMax }), cores, ...more } satisfies Partial<WorkflowFacts>;
}

export class JobsTestCluster {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly managers: readonly string[];
  readonly workers: readonly string[];
  readonly began: (UnitRun & { readonly atMs: number })[] = [];
  readonly acted: (UnitRun & { readonly atMs: number })[] = [];
  readonly ended: (UnitRun & { readonly outcome: string })[] = [];
  readonly #errands: JobRequester;
  readonly #checkers: readonly (readonly [string, PropertyChecker])[];
  #rule: MessageRule = () => 'pass';
  /** What went wrong in the midst of a step; told at the end of it, because there nobody would hear it. */
  #mistake: string | undefined;
  #plans = 0;

  constructor({ managers = 3, workers = 3, cores = 2, seed = 1 }: JobsWorldOptions = {}) {
    const names = Array.from({ length: managers + workers }, (_, at) => `n${at + 1}`);
    this.managers = names.slice(0, managers);
    this.workers = names.slice(managers);
    const witness = new JobObserver(
      () => this.world,
      cores,
      (seen) => this.#observe(seen),
    );
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed: `story/${seed}`, names, failpoints: false },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: this.managers.map((name) => simulatedAddress(this.world, name)),
          roles: (name) => (this.managers.includes(name) ? ['manager'] : ['worker']),
          options: { registry: 'embedded' },
          jobs: { cores, runners: (inner, node) => witness.runners(node, inner) },
          wrap: (streams, datagrams) => ({
            streams: this.#ruled(tapJobMessages(streams, context.name, witness), context.name),
            datagrams,
          }),
        }),
    });
    const stage = { world: this.world } as unknown as WorkloadRun;
    const wanted = Object.entries(always).filter(([name]) => !notHere.includes(name));
    this.#checkers = wanted.map(([name, property]) => [name, property(stage)] as const);
    this.#errands = new JobRequester(this.world, () => undefined);
    this.world.watch((event) => {
      if (event.kind === 'stopped') witness.nodeStopped(event.node);
      if (event.kind === 'threw') this.#mistake ??= `${event.node} threw ${String(event.error)}`;
    });
    this.world.startAll();
    this.until('all workers may work', () => this.workers.every((name) => this.#isActive(name)));
    this.until('all know who leads', () =>
      this.workers.every((name) => this.core(name).control?.leader() !== undefined),
    );
    this.advance(500);
  }

  get nowMs(): number {
    return this.world.timeline.nowMs;
  }

  /** The nodes that lead now; a test may rely on there being one. */
  get leader(): string {
    this.until('somebody leads', () => this.#leaders().length === 1);
    return this.#leaders()[0] as string;
  }

  core(name: string): NodeCore {
    const core = this.world.program(name)?.core;
    assert.ok(core !== undefined, `${name} is down`);
    return core;
  }

  advance(durationMs: number): void {
    this.world.advance(durationMs);
    assert.equal(this.#mistake, undefined, `${this.#mistake}\n${this.world.log.last(linesTold).join('\n')}`);
  }

  until(what: string, holds: () => boolean, withinMs = waitMsMax): void {
    const endMs = this.nowMs + withinMs;
    while (!holds()) {
      assert.ok(this.nowMs < endMs, `waited in vain: ${what}\n${this.world.log.last(linesTold).join('\n')}`);
      this.advance(stepMs);
    }
  }

  /** From now on; the last word counts. */
  rule(rule: MessageRule): void {
    this.#rule = rule;
  }

  /** Each message of that kind that arrives has that fate, as often as said. */
  fate(kind: JobMessage['kind'], fate: MessageFate, times = Infinity, at?: string): { readonly struck: () => number } {
    let struck = 0;
    this.#rule = (message, node) => {
      if (message.kind !== kind || (at ?? node) !== node || struck >= times) return 'pass';
      struck += 1;
      return fate;
    };
    return { struck: () => struck };
  }

  plan(
    parts: readonly (readonly [Partial<WorkflowFacts>, Partial<FakeCodeBehaviour>])[],
    words: Partial<JobRequest> = {},
    kind: PlanKind = 'batch',
  ): JobPlan {
    const name = `story-${++this.#plans}`;
    const all = parts.map(([facts, behaviour], at) => ({
      facts: defaultWorkflowFacts(facts.name ?? `part-${at}`, { timeoutMs: 60_000, ...facts }),
      behaviour: { itemMs: 50, ...behaviour },
    }));
    return createJobPlan({ name, kind, submitter: 'client' }, all, { timeoutMs: 80_000, ...words });
  }

  /** Stores its code and submits it; the id of the job. */
  submit(plan: JobPlan, through?: string): string {
    this.#observe({ kind: 'jobSubmitted', plan });
    this.answer({ verb: 'store', sha256: plan.request.bundle, code: plan.code }, through);
    const told = this.order('submit', plan.request, through) as { jobId: string; isNew: boolean };
    this.#observe({ kind: 'jobAccepted', plan, job: told.jobId, isNew: told.isNew });
    return told.jobId;
  }

  /** What is told is JSON. */
  order(verb: JobVerb, words: unknown, through?: string): unknown {
    const outcome = this.answer({ verb, request: words, submitter: 'client' }, through);
    if (!outcome.ok) throw outcome.error;
    return JSON.parse(outcome.value);
  }

  /** Retried, through that node or whichever is up, as long as a later try may help. */
  answer(question: SimulatedJobRequest, through?: string): Outcome<string> {
    const endMs = this.nowMs + waitMsMax;
    for (;;) {
      const outcome = this.once(question, through);
      const code = outcome === undefined ? 'DEADLINE' : outcome.ok ? undefined : outcome.error.code;
      const isLater = code !== undefined && later.has(code);
      if (outcome !== undefined && !isLater) return outcome;
      assert.ok(this.nowMs < endMs, `nobody answers ${question.verb}: ${code}`);
      this.advance(100);
    }
  }

  /** One try; undefined when nobody answers. */
  once(question: SimulatedJobRequest, through = this.world.up()[0] as string): Outcome<string> | undefined {
    let ended: { readonly outcome: Outcome<string> | undefined } | undefined;
    this.#errands.send(through, question, askMs, (outcome) => {
      ended = { outcome };
    });
    this.until(`an answer to ${question.verb}`, () => ended !== undefined);
    return ended?.outcome;
  }

  show(job: string): JobView {
    const shown = this.order('show', { jobId: job }) as JobView;
    const { status, totals, error, workflows } = shown;
    const attempts = workflows.map((workflow) => workflow.attempts);
    const view = { job, status, totals, code: error?.code, attempts, requestedMs: this.nowMs };
    this.#observe({ kind: 'jobObserved', view });
    return shown;
  }

  result(job: string): Readonly<Record<string, unknown>> {
    return (this.order('result', { jobId: job }) as { results: Record<string, unknown> }).results;
  }

  cancel(job: string): JobStatus {
    this.#observe({ kind: 'cancelRequested', job });
    return (this.order('cancel', { jobId: job }) as { status: JobStatus }).status;
  }

  /** Waits until it is over, in that status. */
  ends(job: string, status: JobStatus): JobView {
    let shown = this.show(job);
    const endMs = this.nowMs + waitMsMax;
    while (!isTerminalStatus(shown.status)) {
      assert.ok(this.nowMs < endMs, `${job} is ${shown.status} for ever\n${this.world.log.last(linesTold).join('\n')}`);
      this.advance(100);
      shown = this.show(job);
    }
    assert.equal(shown.status, status, JSON.stringify(shown.error));
    return shown;
  }

  runsOf(job: string): readonly UnitRun[] {
    return this.began.filter((run) => run.job === job);
  }

  /** Every core of every worker that is up is free again. */
  coresReturn(): void {
    this.until('all cores are free', () =>
      this.workers.every((name) => {
        const worker = this.world.program(name)?.core?.jobs?.worker;
        return worker === undefined || worker.coreCounts().free === worker.coreCounts().total;
      }),
    );
  }

  /** A worker, or whoever is named, says that to another node; ends when it was answered or not. */
  say(from: string, to: string, message: JobMessage): Message | undefined {
    let answer: { readonly message: Message | undefined } | undefined;
    const { streams } = this.world.program(from) ?? {};
    streams?.request(simulatedAddress(this.world, to), encodeMessage(message), askMs, (outcome) => {
      answer = { message: outcome.ok ? decodeMessage(outcome.value) : undefined };
    });
    this.until('an answer', () => answer !== undefined);
    return answer?.message;
  }

  #isActive(name: string): boolean {
    const core = this.world.program(name)?.core;
    return core?.control?.registration.registrationStatusOf(core.identity.id) === 'active';
  }

  #leaders(): readonly string[] {
    return this.managers.filter((name) => this.world.program(name)?.core?.control?.leadership.isLeading() === true);
  }

  #observe(seen: Observation): void {
    if (seen.kind === 'unitStarted') this.began.push({ ...seen, atMs: this.nowMs });
    if (seen.kind === 'unitActed') this.acted.push({ ...seen, atMs: this.nowMs });
    if (seen.kind === 'unitEnded') this.ended.push(seen);
    for (const [name, checker] of this.#checkers) {
      const wrong = checker.observe?.(seen);
      if (wrong !== undefined) this.#mistake ??= `${name}: ${wrong}`;
    }
  }

  #ruled(streams: Streams, node: string): Streams {
    return {
      ...streams,
      serve: (service) =>
        streams.serve({
          ...service,
          request: (from, body, remainingMs, reply) => {
            const copy = body.slice();
            const fate = tags.has(peekTag(body) ?? -1)
              ? this.#rule(decodeMessage(copy) as JobMessage, node, from)
              : 'pass';
            if (fate === 'lose') return;
            const told: typeof reply = (outcome) => {
              if (fate === 'late') this.world.timeline.after(lateMs, () => reply(outcome));
              else if (fate !== 'loseAnswer') reply(outcome);
            };
            service.request(from, body, remainingMs, told);
            if (fate === 'twice') service.request(from, copy, remainingMs, () => undefined);
          },
        }),
    };
  }
}
