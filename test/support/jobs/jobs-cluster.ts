/**
 * A simulated cluster for tests of jobs: real nodes, fake runners, and a rule that decides the fate of each message.
 */
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
 * What happens to a request. `loseReply`: it is processed and the reply is lost. `late`: the reply arrives after the
 * timeout of the sender. `twice`: it arrives twice.
 */
export type MessageFate = 'pass' | 'lose' | 'loseReply' | 'late' | 'twice';
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
const logLinesShown = 40;
const retryableCodes: ReadonlySet<string> = new Set([
  'NOT_LEADER',
  'NO_QUORUM',
  'UNREACHABLE',
  'DEADLINE',
  'NETWORK_TIMEOUT',
]);
const tags: ReadonlySet<number> = new Set(jobMessages.map(({ tag }) => tag));
/** Properties that hold in every test; each checks every observation from the first step on. */
const always = { ...unitProperties, ...resultProperties, ...jobProperties };
const excluded = ['healthyJobsComplete', 'noCoreLeaks', 'resultsAreComplete', 'everyJobEnds', 'acceptedJobsAreKept'];

/** A batch of `items` numbers in units of `unitItemsMax`. */
export function batch(items: number, unitItemsMax: number, cores: number, more: Partial<WorkflowFacts> = {}) {
  return { batch: defaultBatchFacts({ items, unitItemsMax }), cores, ...more } satisfies Partial<WorkflowFacts>;
}

export class JobsTestCluster {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly managers: readonly string[];
  readonly workers: readonly string[];
  readonly started: (UnitRun & { readonly atMs: number })[] = [];
  readonly acted: (UnitRun & { readonly atMs: number })[] = [];
  readonly ended: Extract<Observation, { readonly kind: 'unitEnded' }>[] = [];
  readonly #requester: JobRequester;
  readonly #checkers: readonly (readonly [string, PropertyChecker])[];
  #rule: MessageRule = () => 'pass';
  /** First violation within a step; reported at its end, because an exception inside would be caught. */
  #violation: string | undefined;
  #plans = 0;

  constructor({ managers = 3, workers = 3, cores = 2, seed = 1 }: JobsWorldOptions = {}) {
    const names = Array.from({ length: managers + workers }, (_, at) => `n${at + 1}`);
    this.managers = names.slice(0, managers);
    this.workers = names.slice(managers);
    const observer = new JobObserver(
      () => this.world,
      cores,
      (observation) => this.#observe(observation),
    );
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed: `story/${seed}`, names, failpoints: false },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: this.managers.map((name) => simulatedAddress(this.world, name)),
          roles: (name) => (this.managers.includes(name) ? ['manager'] : ['worker']),
          options: { registry: 'embedded' },
          jobs: { cores, runners: (inner, node) => observer.runners(node, inner) },
          wrap: (streams, datagrams) => ({
            streams: this.#applyRule(tapJobMessages(streams, context.name, observer), context.name),
            datagrams,
          }),
        }),
    });
    const run = { world: this.world } as unknown as WorkloadRun;
    const properties = Object.entries(always).filter(([name]) => !excluded.includes(name));
    this.#checkers = properties.map(([name, property]) => [name, property(run)] as const);
    this.#requester = new JobRequester(this.world, () => undefined);
    this.world.watch((event) => {
      if (event.kind === 'stopped') observer.nodeStopped(event.node);
      if (event.kind === 'threw') this.#violation ??= `${event.node} threw ${String(event.error)}`;
    });
    this.world.startAll();
    this.until('all workers are active', () => this.workers.every((name) => this.#isActive(name)));
    this.until('all workers know the leader', () =>
      this.workers.every((name) => this.core(name).control?.leader() !== undefined),
    );
    this.advance(500);
  }

  get nowMs(): number {
    return this.world.timeline.nowMs;
  }

  /** The leading node, once there is exactly one. */
  get leader(): string {
    this.until('one manager leads', () => this.#leaders().length === 1);
    return this.#leaders()[0] as string;
  }

  core(name: string): NodeCore {
    const core = this.world.program(name)?.core;
    assert.ok(core !== undefined, `${name} is down`);
    return core;
  }

  advance(durationMs: number): void {
    this.world.advance(durationMs);
    assert.equal(this.#violation, undefined, `${this.#violation}\n${this.world.log.last(logLinesShown).join('\n')}`);
  }

  until(what: string, holds: () => boolean, withinMs = waitMsMax): void {
    const endMs = this.nowMs + withinMs;
    while (!holds()) {
      assert.ok(
        this.nowMs < endMs,
        `timed out waiting until ${what}\n${this.world.log.last(logLinesShown).join('\n')}`,
      );
      this.advance(stepMs);
    }
  }

  /** Replaces the rule. */
  rule(rule: MessageRule): void {
    this.#rule = rule;
  }

  /** The first `times` messages of that kind get that fate, at node `at` or anywhere. */
  fate(kind: JobMessage['kind'], fate: MessageFate, times = Infinity, at?: string): { readonly applied: () => number } {
    let applied = 0;
    this.#rule = (message, node) => {
      if (message.kind !== kind || (at ?? node) !== node || applied >= times) return 'pass';
      applied += 1;
      return fate;
    };
    return { applied: () => applied };
  }

  plan(
    parts: readonly (readonly [Partial<WorkflowFacts>, Partial<FakeCodeBehaviour>])[],
    args: Partial<JobRequest> = {},
    kind: PlanKind = 'batch',
  ): JobPlan {
    const name = `story-${++this.#plans}`;
    const all = parts.map(([facts, behaviour], at) => ({
      facts: defaultWorkflowFacts(facts.name ?? `part-${at}`, { timeoutMs: 60_000, ...facts }),
      behaviour: { itemMs: 50, ...behaviour },
    }));
    return createJobPlan({ name, kind, submitter: 'client' }, all, { timeoutMs: 80_000, ...args });
  }

  /** Stores the bundle and submits the job; returns the job id. */
  submit(plan: JobPlan, through?: string): string {
    this.#observe({ kind: 'jobSubmitted', plan });
    this.request({ verb: 'store', sha256: plan.request.bundle, code: plan.code }, through);
    const reply = this.command('submit', plan.request, through) as { jobId: string; isNew: boolean };
    this.#observe({ kind: 'jobAccepted', plan, job: reply.jobId, isNew: reply.isNew });
    return reply.jobId;
  }

  /** Returns the parsed JSON of the reply. */
  command(verb: JobVerb, args: unknown, through?: string): unknown {
    const outcome = this.request({ verb, request: args, submitter: 'client' }, through);
    if (!outcome.ok) throw outcome.error;
    return JSON.parse(outcome.value);
  }

  /** Retries while the error is retryable, through `through` or any node that is up. */
  request(request: SimulatedJobRequest, through?: string): Outcome<string> {
    const endMs = this.nowMs + waitMsMax;
    for (;;) {
      const outcome = this.requestOnce(request, through);
      const code = outcome === undefined ? 'DEADLINE' : outcome.ok ? undefined : outcome.error.code;
      const isRetryable = code !== undefined && retryableCodes.has(code);
      if (outcome !== undefined && !isRetryable) return outcome;
      assert.ok(this.nowMs < endMs, `no reply to ${request.verb}: ${code}`);
      this.advance(100);
    }
  }

  /** One attempt; undefined without a reply. */
  requestOnce(request: SimulatedJobRequest, through = this.world.up()[0] as string): Outcome<string> | undefined {
    let ended: { readonly outcome: Outcome<string> | undefined } | undefined;
    this.#requester.send(through, request, askMs, (outcome) => {
      ended = { outcome };
    });
    this.until(`${request.verb} is answered`, () => ended !== undefined);
    return ended?.outcome;
  }

  show(job: string): JobView {
    const view = this.command('show', { jobId: job }) as JobView;
    const { status, totals, error, workflows } = view;
    const attempts = workflows.map((workflow) => workflow.attempts);
    const observed = { job, status, totals, code: error?.code, attempts, requestedMs: this.nowMs };
    this.#observe({ kind: 'jobObserved', view: observed });
    return view;
  }

  result(job: string): Readonly<Record<string, unknown>> {
    return (this.command('result', { jobId: job }) as { results: Record<string, unknown> }).results;
  }

  cancel(job: string): JobStatus {
    this.#observe({ kind: 'cancelRequested', job });
    return (this.command('cancel', { jobId: job }) as { status: JobStatus }).status;
  }

  /** Waits for the end of the job, which must have that status. */
  untilEnd(job: string, status: JobStatus): JobView {
    let view = this.show(job);
    const endMs = this.nowMs + waitMsMax;
    while (!isTerminalStatus(view.status)) {
      assert.ok(this.nowMs < endMs, `${job} is still ${view.status}\n${this.world.log.last(logLinesShown).join('\n')}`);
      this.advance(100);
      view = this.show(job);
    }
    assert.equal(view.status, status, JSON.stringify(view.error));
    return view;
  }

  runsOf(job: string): readonly UnitRun[] {
    return this.started.filter((run) => run.job === job);
  }

  /** Waits until every core of every running worker is free. */
  untilCoresFree(): void {
    this.until('all cores are free', () =>
      this.workers.every((name) => {
        const worker = this.world.program(name)?.core?.jobs?.worker;
        return worker === undefined || worker.coreCounts().free === worker.coreCounts().total;
      }),
    );
  }

  /** Sends a message from one node to another; returns the reply, undefined without one. */
  sendMessage(from: string, to: string, message: JobMessage): Message | undefined {
    let answer: { readonly message: Message | undefined } | undefined;
    const { streams } = this.world.program(from) ?? {};
    streams?.request(simulatedAddress(this.world, to), encodeMessage(message), askMs, (outcome) => {
      answer = { message: outcome.ok ? decodeMessage(outcome.value) : undefined };
    });
    this.until('the message is answered', () => answer !== undefined);
    return answer?.message;
  }

  #isActive(name: string): boolean {
    const core = this.world.program(name)?.core;
    return core?.control?.registration.registrationStatusOf(core.identity.id) === 'active';
  }

  #leaders(): readonly string[] {
    return this.managers.filter((name) => this.world.program(name)?.core?.control?.leadership.isLeading() === true);
  }

  #observe(observation: Observation): void {
    if (observation.kind === 'unitStarted') this.started.push({ ...observation, atMs: this.nowMs });
    if (observation.kind === 'unitActed') this.acted.push({ ...observation, atMs: this.nowMs });
    if (observation.kind === 'unitEnded') this.ended.push(observation);
    for (const [name, checker] of this.#checkers) {
      const wrong = checker.observe?.(observation);
      if (wrong !== undefined) this.#violation ??= `${name}: ${wrong}`;
    }
  }

  #applyRule(streams: Streams, node: string): Streams {
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
            const ruledReply: typeof reply = (outcome) => {
              if (fate === 'late') this.world.timeline.after(lateMs, () => reply(outcome));
              else if (fate !== 'loseReply') reply(outcome);
            };
            service.request(from, body, remainingMs, ruledReply);
            if (fate === 'twice') service.request(from, copy, remainingMs, () => undefined);
          },
        }),
    };
  }
}
