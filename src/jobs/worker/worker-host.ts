/**
 * Wires the worker of a node: executor, reporter, lease, runner pool. Answers assignUnits and stopUnits. Never runs
 * user code in this process.
 *
 *   assignUnits --> unit-executor --take--> runner-pool --> runner processes
 *                        | ended, progress
 *                        v
 *                  unit-reporter --reportUnits--> leader <--workerHeartbeat-- worker-lease
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Address, Clock, Identity, Peer, Program, Runners } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Registry } from '../../base/registry.ts';
import type { AttemptId, JobMessage, JobMessageOf } from '../../messages/jobs.ts';
import { BundleCache } from './bundle-cache.ts';
import { runGuarded, guardedClock, guardedRunners } from './guarded-ports.ts';
import { UnitReporter } from './unit-reporter.ts';
import { RunnerPool } from './runner-pool.ts';
import type { StopCause, UnitAttempt } from './unit-attempt.ts';
import { type UnitAcceptance, UnitExecutor, graceMs } from './unit-executor.ts';
import { WorkerLease } from './worker-lease.ts';

export type WorkerEvent = { readonly kind: string } & Readonly<Record<string, unknown>>;

export type WorkerPorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: Pick<Registry, 'range'>;
  readonly self: Identity;
  readonly cores: number;
  readonly runners: Runners;
  /** The runner program; the simulator passes a fake. */
  readonly program: Program;
  /** The leader, as far as this node knows. */
  leader(): Peer | undefined;
  /** Ends with the reply or an error, at the latest after `timeoutMs`. */
  request(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void;
  sha256(bytes: Uint8Array): string;
  readonly isolation: 'full' | 'weak';
  /** Load level of this node: normal, elevated, high, severe, critical. */
  loadLevel(): string;
  emit(event: WorkerEvent): void;
  /** A bug: the worker cannot go on. */
  halted(error: unknown): void;
};

export type WorkerOptions = {
  /** Length of the lease until a leader sends its own. */
  readonly jobLeaseMs: number;
  /** Largest number of fresh runners that wait for work; never more than there are cores. */
  readonly warmRunnersMax?: number;
};

/** Until a unit needs another one. */
const firstProfile = { network: true, memoryMb: 256 } as const;
const unacknowledgedBytesMax = 64_000_000;
/** Idle runners beside one per core and a fresh one: two kinds of jobs in alternation both find their runners warm. */
const otherCodeMax = 4;
/** Running attempts and unacknowledged ends fit into one heartbeat. */
const attemptsMax = 1_000;
const logLinesPerSecondMax = 50;
const stopGraceMs = 300;
/** The last heartbeat may be a quarter of the lease old when the node is paused, and the leader reassigns at 1.1. */
const parentStallShare = 0.7;
const parentStallMsMin = 3_000;
const stopMsMax = 1_000;

export class WorkerHost {
  readonly #ports: WorkerPorts;
  readonly #clock: Clock;
  readonly #halted: (error: unknown) => void;
  readonly #pool: RunnerPool;
  readonly #executor: UnitExecutor;
  readonly #reporter: UnitReporter;
  readonly #lease: WorkerLease;
  readonly #idleCallbacks: Done<void>[] = [];
  #isDraining = false;
  /** The node stops soon: running units may still end. */
  #refusesUnits = false;
  #isStopping = false;
  #isClosed = false;
  readonly #stopCallbacks: Done<void>[] = [];
  #logLines = { sinceMs: 0, count: 0 };

  constructor(ports: WorkerPorts, options: WorkerOptions) {
    const { random, cores, registry, self, program } = ports;
    const halted = (error: unknown): void => ports.halted(error);
    const clock = guardedClock(ports.clock, halted);
    const runners = guardedRunners(ports.runners, halted);
    const freshCount = Math.min(cores, options.warmRunnersMax ?? cores);
    this.#ports = ports;
    this.#clock = clock;
    this.#halted = halted;
    this.#pool = new RunnerPool(
      { clock, random: random.fork('pool'), runners, program },
      {
        freshCount,
        idleMax: cores + 1 + Math.min(cores, otherCodeMax),
        profile: firstProfile,
        parentStallMsMax: parentStallMs(options.jobLeaseMs),
      },
    );
    const sha256 = (bytes: Uint8Array): string => ports.sha256(bytes);
    this.#executor = new UnitExecutor({
      ...{ clock, cores, pool: this.#pool },
      bundles: new BundleCache({ clock, random: random.fork('bundles'), registry, sha256 }),
      ended: (report) => this.#reporter.reportEnd(report),
      progressed: (unit) => this.#reporter.reportProgress(unit),
      logged: (unit, level, text) => this.#emitLogLine(unit, level, text),
      runnerKilled: ({ id }, reason) => ports.emit({ kind: 'runner.killed', ...attemptFields(id), reason }),
    });
    const leader = (): Peer | undefined => ports.leader();
    const request: WorkerPorts['request'] = (to, message, timeoutMs, done) =>
      ports.request(to, message, timeoutMs, (outcome) => runGuarded(halted, () => done(outcome)));
    const stop = (ids: readonly AttemptId[]): void => this.#stopSuperseded(ids);
    this.#reporter = new UnitReporter({
      ...{ clock, random: random.fork('teller'), generation: self.generation, leader, request, stop },
      allAcknowledged: () => this.#notifyIfIdle(),
    });
    this.#lease = new WorkerLease(
      {
        ...{ clock, random: random.fork('lease'), leader, request, stop },
        heartbeat: () => this.#heartbeat(),
        granted: () => this.#pool.warmUp(),
        expired: (withinMs) => this.#onLeaseExpired(withinMs),
      },
      options.jobLeaseMs,
    );
  }

  assignUnits(
    _from: Identity,
    message: JobMessageOf<'assignUnits'>,
    reply: Done<JobMessageOf<'assignUnitsReply'>>,
  ): void {
    const { term, generation, units } = message;
    const own = this.#ports.self.generation;
    if (generation !== own)
      return reply(failure('FENCED', `the units are for generation ${generation}, this is generation ${own}`, 'no'));
    if (!this.#lease.acceptsTerm(term)) return reply(failure('FENCED', this.#staleTermText(term), 'no'));
    runGuarded(this.#halted, () => {
      const results = units.map((unit) => this.#executor.accept(unit, this.#refusal()));
      reply(success({ kind: 'assignUnitsReply', units: results }));
    });
  }

  stopUnits(_from: Identity, message: JobMessageOf<'stopUnits'>, reply: Done<JobMessageOf<'stopUnitsReply'>>): void {
    const { term, reason } = message;
    if (!this.#lease.acceptsTerm(term)) return reply(failure('FENCED', this.#staleTermText(term), 'no'));
    const outcome = reason === 'timeout' ? 'timeout' : 'cancelled';
    const cause: StopCause = { reason, outcome, graceMs };
    this.#stopUnits(message.units, cause, () => {
      reply(success({ kind: 'stopUnitsReply' }));
    });
  }

  /** `leader()` may return another node now. */
  leaderChanged(): void {
    this.#lease.leaderChanged();
    this.#reporter.leaderChanged();
  }

  /** A draining worker accepts no new unit and returns those that wait for a core. */
  setDraining(on: boolean): void {
    if (on === this.#isDraining) return;
    this.#isDraining = on;
    if (on) runGuarded(this.#halted, () => this.#executor.returnQueued('the worker is being drained'));
    this.#lease.renewNow();
  }

  coreCounts(): { readonly total: number; readonly free: number } {
    return this.#executor.cores;
  }

  aliveRunners(): number {
    return this.#pool.aliveCount;
  }

  /** A hash of the current attempts, independent of their order. */
  attemptsDigest(): number {
    let digest = 0;
    for (const id of this.#executor.attemptIds()) digest = (digest + hashText(attemptText(id))) >>> 0;
    return digest;
  }

  runningUnits(): number {
    return this.#executor.count;
  }

  /** No unit runs, and every end is acknowledged. */
  get isIdle(): boolean {
    return this.#executor.count === 0 && this.#reporter.unacknowledgedCount === 0;
  }

  /** From now on units are refused; those that wait for a core return to the manager. Running ones go on. */
  refuseUnits(): void {
    if (this.#refusesUnits) return;
    this.#refusesUnits = true;
    runGuarded(this.#halted, () => this.#executor.returnQueued('the worker is stopping'));
    this.#lease.renewNow();
  }

  /** Calls back when no unit runs and every end is acknowledged, for draining. */
  whenIdle(done: Done<void>): void {
    this.#idleCallbacks.push(done);
    this.#clock.schedule(0, () => this.#notifyIfIdle());
  }

  /** Returns running units to the manager (`returned`) within a bound, and kills all runners. */
  stop(done: Done<void>): void {
    this.#stopCallbacks.push(done);
    if (this.#isStopping) return;
    this.#isStopping = true;
    runGuarded(this.#halted, () => {
      this.#executor.stopAll({ reason: 'the worker is stopping', outcome: 'returned', graceMs: stopGraceMs });
    });
    this.whenIdle(() => this.#close());
    this.#clock.schedule(stopMsMax, () => this.#close());
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#lease.close();
    this.#reporter.close();
    this.#pool.close(() => {
      for (const done of this.#stopCallbacks.splice(0)) done(success(undefined));
    });
  }

  #refusal(): UnitAcceptance | undefined {
    const isStopping = this.#refusesUnits || this.#isStopping;
    if (this.#isDraining || isStopping)
      return { code: 'DRAINED', message: `this worker is ${isStopping ? 'stopping' : 'draining'}` };
    if (!this.#lease.holds) return { code: 'CAPACITY', message: 'this worker holds no lease of a leader' };
    const { unacknowledgedBytes, unacknowledgedCount } = this.#reporter;
    const isFull =
      unacknowledgedBytes > unacknowledgedBytesMax || unacknowledgedCount + this.#executor.count >= attemptsMax;
    return isFull ? { code: 'CAPACITY', message: 'too many ends wait for an acknowledgement' } : undefined;
  }

  #staleTermText(term: number): string {
    return `term ${term} is stale: this worker has seen term ${this.#lease.term}`;
  }

  #stopUnits(ids: readonly AttemptId[], cause: StopCause, done: () => void): void {
    let left = ids.length + 1;
    const one = (): void => {
      left -= 1;
      if (left === 0) done();
    };
    runGuarded(this.#halted, () => {
      for (const id of ids) this.#executor.stop(id, cause, one);
      one();
    });
  }

  #stopSuperseded(ids: readonly AttemptId[]): void {
    this.#stopUnits(ids, { reason: 'superseded', outcome: 'cancelled', graceMs: 0 }, () => undefined);
  }

  #heartbeat(): JobMessageOf<'workerHeartbeat'> {
    const { self, isolation } = this.#ports;
    const { total } = this.#executor.cores;
    const attempts = [...this.#executor.attemptIds(), ...this.#reporter.unacknowledgedIds()];
    return {
      ...{ kind: 'workerHeartbeat', generation: self.generation, coresTotal: total, attempts, isolation },
      ...{ loadLevel: this.#ports.loadLevel(), draining: this.#isDraining || this.#refusesUnits || this.#isStopping },
    };
  }

  #onLeaseExpired(withinMs: number): void {
    if (this.#executor.count === 0) return;
    this.#ports.emit({ kind: 'worker.orphaned', units: this.#executor.count });
    const reason = 'the lease of this worker expired: no leader replied to its heartbeats';
    this.#executor.stopAll({ reason, outcome: 'returned', graceMs: Math.min(graceMs, withinMs) });
  }

  #notifyIfIdle(): void {
    if (!this.isIdle) return;
    for (const done of this.#idleCallbacks.splice(0)) done(success(undefined));
  }

  /** Lines of `ctx.log` go to the log of the node, at most 50 per second. */
  #emitLogLine({ id }: UnitAttempt, level: string, text: string): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#logLines.sinceMs >= 1_000) this.#logLines = { sinceMs: nowMs, count: 0 };
    this.#logLines.count += 1;
    if (this.#logLines.count > logLinesPerSecondMax) return;
    this.#ports.emit({ kind: 'job.said', ...attemptFields(id), level, text });
  }
}

/** A paused node (SIGSTOP) cannot stop its units; its runners exit by themselves before the leader reassigns them. */
function parentStallMs(leaseMs: number): number {
  return Math.max(parentStallMsMin, leaseMs * parentStallShare);
}

function attemptText({ job, workflow, unit, attempt, fence }: AttemptId): string {
  return `${job}/${workflow}/${unit}/${attempt}/${fence}`;
}

/** FNV-1a over the characters. */
function hashText(text: string): number {
  let hash = 0x811c_9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x0100_0193) >>> 0;
  return hash;
}

function attemptFields({ job, workflow, unit, attempt }: AttemptId): Record<string, string | number> {
  return { job, workflow, unit, attempt };
}
