/**
 * What the tests of the worker share: a worker on pretended time, with a leader that the test speaks for and runners
 * whose behaviour is the code of the bundle, one word of it.
 */
import { createHash } from 'node:crypto';
import { type Done, type Outcome, failure, success } from '../../../src/base/errors.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Clock, Identity, Peer, ProgramEvents, Runners, RunningProgram } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { AttemptId, UnitAssignment, JobMessage, JobMessageOf, UnitReport } from '../../../src/messages/jobs.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { jobKeys } from '../../../src/jobs/job-keys.ts';
import { runnerEventCodec, runnerCommandCodec } from '../../../src/jobs/runner-protocol.ts';
import { type UnitSpec, decodeUnitSpec, encodeUnitSpec } from '../../../src/jobs/unit-spec.ts';
import { type WorkerEvent, WorkerHost } from '../../../src/jobs/worker/worker-host.ts';

/** What a pretended runner does with a unit. */
export type FakeRunnerBehaviour =
  /** Ends well after 5 ms. */
  | 'quick'
  /** The same, and says that its code goes on. */
  | 'spends'
  /** Ends when it is told to stop, and not before. */
  | 'patient'
  /** Never ends, whatever it is told. */
  | 'deaf'
  /** Its process dies after 5 ms. */
  | 'dies'
  | 'fails'
  /** Says what is no word. */
  | 'babbles'
  /** Speaks of a run that was never begun. */
  | 'lies'
  /** Tells of progress every 10 ms, and ends well after a second. */
  | 'steady';

export const encoder = new TextEncoder();

export function fakeBundleHash(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function timelineClock(timeline: Timeline): Clock {
  return {
    nowMs: () => timeline.nowMs,
    wallMs: () => 1_700_000_000_000 + timeline.nowMs,
    schedule: (delayMs, run) => timeline.after(delayMs, run),
  };
}

export function unitSpecOf(job: string, changed: Partial<UnitSpec> = {}): UnitSpec {
  return {
    ...{ job, workflow: 0, unit: 0, units: 1, phase: 'whole', bundle: '', facts: '{}', env: new Map(), seed: 1 },
    ...{ users: undefined, iterations: undefined, items: undefined, data: undefined, context: '{}' },
    ...{ network: false, memoryMb: 256, timeoutMs: 600_000, submitter: 'me', ...changed },
  };
}

export function unitAssignmentOf(order: UnitSpec, changed: Partial<UnitAssignment> = {}): UnitAssignment {
  const { job, workflow, unit } = order;
  return { job, workflow, unit, attempt: 1, fence: 1n, mayWait: false, spec: encodeUnitSpec(order), ...changed };
}

/** Processes that are none. `failing`: they die before they are ready. */
class FakeRunners implements Runners {
  readonly #timeline: Timeline;
  readonly #codes: ReadonlyMap<string, string>;
  alive = 0;
  started = 0;
  failing = false;
  /** How many further runs they keep. */
  ahead: number | undefined;
  /** By job: how often its code began. */
  readonly begun = new Map<string, number>();
  /** The same by job and attempt. */
  readonly attemptsBegun = new Map<string, number>();
  /** How many began right after another one, in the same runner. */
  begunBehind = 0;
  /** How many units are being run at this moment. */
  busy = 0;
  busyMax = 0;
  codeSent = 0;

  constructor(timeline: Timeline, codes: ReadonlyMap<string, string>) {
    this.#timeline = timeline;
    this.#codes = codes;
  }

  start(_spec: unknown, events: ProgramEvents): RunningProgram {
    this.alive += 1;
    this.started += 1;
    const life = { isOver: false, isBusy: false };
    const after = (delayMs: number, run: () => void): void => {
      this.#timeline.after(delayMs, () => {
        if (!life.isOver) run();
      });
    };
    const idle = (): void => {
      if (life.isBusy) this.busy -= 1;
      life.isBusy = false;
    };
    const exit = (reason: string): void => {
      if (life.isOver) return;
      after(1, () => {
        life.isOver = true;
        idle();
        this.alive -= 1;
        events.exited(reason);
      });
    };
    const say = (word: Parameters<typeof runnerEventCodec.encode>[0]): void => {
      if (word.kind === 'ended' && word.run === run) idle();
      const body = runnerEventCodec.encode(word);
      after(0.1, () => events.message(body));
    };
    if (this.failing) exit('cannot start');
    else after(20, () => events.message(runnerEventCodec.encode({ kind: 'ready', prefetch: this.ahead })));
    let behaviour = '';
    let run = 0;
    const end = (what: 'completed' | 'failed' | 'cancelled', code?: string): void => {
      const output = what === 'completed' ? encoder.encode('"done"') : undefined;
      const done = { completed: what === 'completed' ? 1 : 0, failed: 0, summary: undefined, output };
      const tainted = behaviour === 'spends' ? true : undefined;
      const why = code === undefined ? undefined : 'why';
      say({ kind: 'ended', run, what, ...done, code, why, found: undefined, tainted, failures: undefined });
      const next = queue.shift();
      if (next !== undefined) begin(next, 1);
    };
    const progress = (count: number): void => {
      if (count === 100) return end('completed');
      say({ kind: 'progress', run, completed: count, failed: 0, summary: undefined });
      after(10, () => progress(count + 1));
    };
    const queue: { readonly run: number; readonly order: UnitSpec; readonly attempt: number }[] = [];
    const begin = ({ run: number, order, attempt }: (typeof queue)[number], depth = 0): void => {
      run = number;
      const { behaviour: own } = JSON.parse(order.facts) as { behaviour?: string };
      behaviour = own ?? this.#codes.get(order.bundle) ?? '';
      const key = `${order.job} ${attempt}`;
      this.attemptsBegun.set(key, (this.attemptsBegun.get(key) ?? 0) + 1);
      if (depth > 0) this.begunBehind += 1;
      this.begun.set(order.job, (this.begun.get(order.job) ?? 0) + 1);
      life.isBusy = true;
      this.busy += 1;
      this.busyMax = Math.max(this.busy, this.busyMax);
      say({ kind: 'started', run });
      if (behaviour === 'quick' || behaviour === 'spends') after(5, () => end('completed'));
      else if (behaviour === 'fails') after(5, () => end('failed', 'WORKFLOW_FAILED'));
      else if (behaviour === 'dies') after(5, () => exit('signal: it died'));
      else if (behaviour === 'babbles') after(5, () => events.message(new Uint8Array([9, 9, 9, 9])));
      else if (behaviour === 'lies') after(5, () => say({ kind: 'started', run: run + 7 }));
      else if (behaviour === 'steady') after(10, () => progress(1));
    };
    return {
      send: (body) => {
        const word = runnerCommandCodec.decode(body);
        const delayMs = behaviour === '' ? 25 : 0.1;
        if (word.kind === 'run') {
          if (word.code !== undefined) this.codeSent += 1;
          const next = { run: word.run, order: decodeUnitSpec(word.spec), attempt: word.attempt ?? 0 };
          if (life.isBusy && this.ahead === undefined) throw new Error('it was given two runs at one time');
          after(delayMs, () => (life.isBusy ? queue.push(next) : begin(next)));
        } else {
          after(delayMs, () => {
            const at = queue.findIndex((next) => next.run === word.run);
            const nothing = {
              summary: undefined,
              output: undefined,
              code: undefined,
              why: undefined,
              found: undefined,
              tainted: undefined,
              failures: undefined,
            };
            const ended = {
              kind: 'ended',
              run: word.run,
              what: 'cancelled',
              completed: 0,
              failed: 0,
              ...nothing,
            } as const;
            if (at >= 0 && behaviour !== 'deaf') {
              queue.splice(at, 1);
              say(ended);
            } else if (word.run === run && behaviour === 'patient' && life.isBusy) end('cancelled');
          });
        }
      },
      kill: () => exit('killed'),
    };
  }
}

export type WorkerSceneOptions = {
  readonly cores?: number;
  readonly leaseMs?: number;
  readonly seed?: string;
  /** How many further runs the runners keep. */
  readonly ahead?: number;
};

export class WorkerScene {
  readonly timeline = new Timeline();
  readonly clock = timelineClock(this.timeline);
  readonly codes = new Map<string, string>();
  readonly runners = new FakeRunners(this.timeline, this.codes);
  readonly worker: WorkerHost;
  readonly events: WorkerEvent[] = [];
  readonly mistakes: unknown[] = [];
  readonly reports: JobMessageOf<'workerHeartbeat'>[] = [];
  readonly told: UnitReport[] = [];
  /** How the leader answers; undefined: not at all, and the question ends after its time. */
  answerReports = true;
  answerNews = true;
  term = 1;
  leaseMs: number;
  stopNames: readonly AttemptId[] = [];
  leader: Peer | undefined = { id: nodeIdFrom(new Uint8Array(16).fill(9)), host: '10.0.0.9', port: 7400 };
  fetches = 0;
  registryFails = false;

  constructor({ cores = 2, leaseMs = 10_000, seed = 'worker', ahead }: WorkerSceneOptions = {}) {
    this.runners.ahead = ahead;
    this.leaseMs = leaseMs;
    const id = nodeIdFrom(new Uint8Array(16).fill(1));
    const roles = ['worker'] as const;
    const self: Identity = { id, name: 'w1', host: '10.0.0.1', port: 7400, generation: 3, roles, dc: 'x' };
    this.worker = new WorkerHost(
      {
        ...{ clock: this.clock, random: new Random(seed), self, cores, runners: this.runners, sha256: fakeBundleHash },
        ...{ isolation: 'full', loadLevel: () => 'normal', leader: () => this.leader },
        program: { moduleUrl: 'data:,', main: () => undefined },
        registry: { range: ({ from }, _options, done) => this.#range(from, done) },
        request: (_to, message, timeoutMs, done) => this.#ask(message, timeoutMs, done),
        emit: (event) => this.events.push(event),
        halted: (error) => this.mistakes.push(error),
      },
      { jobLeaseMs: leaseMs },
    );
    this.pass(1_000);
  }

  /** Stores code that behaves like that, and gives its hash. */
  bundle(behaviour: FakeRunnerBehaviour, note = ''): string {
    const hash = fakeBundleHash(encoder.encode(`${behaviour}${note}`));
    this.codes.set(hash, behaviour);
    this.#stored.set(jobKeys.bundlePart(hash, 0), encoder.encode(behaviour));
    this.#stored.set(jobKeys.bundlePart(hash, 1), encoder.encode(note));
    return hash;
  }

  pass(durationMs: number): void {
    this.timeline.runUntil(this.timeline.nowMs + durationMs);
    if (this.mistakes.length > 0) throw this.mistakes[0];
  }

  give(
    units: readonly UnitAssignment[],
    changed: Partial<JobMessageOf<'assignUnits'>> = {},
  ): readonly (string | undefined)[] {
    const outcome = this.giveRaw(units, changed);
    if (!outcome.ok) throw outcome.error;
    return outcome.value.units.map(({ code }) => code);
  }

  giveRaw(
    units: readonly UnitAssignment[],
    changed: Partial<JobMessageOf<'assignUnits'>> = {},
  ): Outcome<JobMessageOf<'assignUnitsReply'>> {
    let answer: Outcome<JobMessageOf<'assignUnitsReply'>> = failure('DEADLINE');
    const message = { kind: 'assignUnits', term: this.term, generation: 3, units, ...changed } as const;
    this.worker.assignUnits(this.#manager, message, (outcome) => {
      answer = outcome;
    });
    return answer;
  }

  /** The answer, when there is one. */
  stop(names: readonly AttemptId[], why: JobMessageOf<'stopUnits'>['reason'] = 'cancelled'): { outcome: unknown } {
    const held: { outcome: unknown } = { outcome: undefined };
    const units = names.map(({ job, workflow, unit, attempt, fence }) => ({ job, workflow, unit, attempt, fence }));
    this.worker.stopUnits(this.#manager, { kind: 'stopUnits', term: this.term, units, reason: why }, (outcome) => {
      held.outcome = outcome;
    });
    return held;
  }

  /** The ends that were told of this job, each once. */
  ends(job: string): readonly UnitReport[] {
    const seen = new Set<string>();
    return this.told.filter((news) => {
      const isEnd = news.job === job && news.status !== 'started' && news.status !== 'progress';
      const key = `${news.attempt} ${news.fence}`;
      if (!isEnd || seen.has(key)) return false;
      seen.add(key);
      return true;
    });
  }

  readonly #stored = new Map<string, Uint8Array>();
  readonly #manager: Identity = {
    ...{ id: nodeIdFrom(new Uint8Array(16).fill(9)), name: 'm1', host: '10.0.0.9', port: 7400 },
    ...{ generation: 1, roles: ['manager'], dc: 'x' },
  };

  #range(from: string, done: Done<never>): void {
    this.fetches += 1;
    this.clock.schedule(3, () => {
      if (this.registryFails) return done(failure('NO_QUORUM'));
      const prefix = from.slice(0, from.lastIndexOf('/') + 1);
      const keys = [...this.#stored.keys()].filter((key) => key.startsWith(prefix) && key >= from).toSorted();
      const [key] = keys;
      const meta = { createRevision: 1, modRevision: 1, version: 1, lease: undefined };
      const entries = key === undefined ? [] : [{ key, value: this.#stored.get(key), ...meta }];
      done(success({ entries, more: keys.length > 1, revision: 1 }) as never);
    });
  }

  #ask(message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void {
    if (message.kind === 'workerHeartbeat') {
      this.reports.push(message);
      if (!this.answerReports) return void this.clock.schedule(timeoutMs, () => done(failure('DEADLINE')));
      const { term, leaseMs, stopNames: stop } = this;
      return void this.clock.schedule(1, () => done(success({ kind: 'workerHeartbeatReply', term, leaseMs, stop })));
    }
    if (message.kind !== 'reportUnits') throw new Error(`a worker does not ask ${message.kind}`);
    this.told.push(...message.reports);
    if (!this.answerNews) return void this.clock.schedule(timeoutMs, () => done(failure('DEADLINE')));
    const acknowledged = message.reports
      .filter(({ status }) => status !== 'started' && status !== 'progress')
      .map(({ job, workflow, unit, attempt, fence }) => ({ job, workflow, unit, attempt, fence }));
    this.clock.schedule(1, () => done(success({ kind: 'reportUnitsAck', acknowledged, stop: [] })));
  }
}
