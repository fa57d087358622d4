/**
 * Wires the worker of a node: executor, reporter, lease, runner pool. Answers assignUnits and stopUnits. Never runs
 * user code in this process.
 *
 *   assignUnits --> units --take--> runner-pool --> processes
 *                   | ended, progress
 *                   v
 *               news-teller --tellUnits--> leader <--workerReport-- worker-lease
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
  /** The runner program; the simulator hands in a pretended one. */
  readonly program: Program;
  /** Who leads, as far as this node knows. */
  leader(): Peer | undefined;
  /** Ends in the answer or an error, at the latest after `timeoutMs`. */
  request(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void;
  sha256(bytes: Uint8Array): string;
  readonly isolation: 'full' | 'weak';
  /** How loaded this node is: normal, elevated, high, severe, critical. */
  loadLevel(): string;
  emit(event: WorkerEvent): void;
  /** The program is wrong. */
  halted(error: unknown): void;
};

export type WorkerOptions = {
  /** Of the lease, until a leader has said. */
  readonly jobLeaseMs: number;
  /** So many runners at most wait for work, and never more than there are cores. */
  readonly warmRunnersMax?: number;
};

/** Until a unit has said otherwise. */
const firstShape = { network: true, memoryMb: 256 } as const;
const unheardBytesMax = 64_000_000;
/**
 * Runners that wait beside as many as there are cores and a fresh one: when two kinds of jobs take turns, neither finds
 * its runners gone, and its code cold.
 */
const otherCodeMax = 4;
/** What runs and what was not heard goes into one report. */
const namesMax = 1_000;
const linesPerSecondMax = 50;
const stopGraceMs = 300;
/** A report may be a quarter of the lease old when the node stands still, and others begin at 1.1. */
const silenceShare = 0.7;
const silenceMsMin = 3_000;
const stopMsMax = 1_000;

export class WorkerHost {
  readonly #ports: WorkerPorts;
  readonly #clock: Clock;
  readonly #halted: (error: unknown) => void;
  readonly #pool: RunnerPool;
  readonly #units: UnitExecutor;
  readonly #teller: UnitReporter;
  readonly #lease: WorkerLease;
  readonly #idle: Done<void>[] = [];
  #isDraining = false;
  #isStopping = false;
  #isClosed = false;
  readonly #stops: Done<void>[] = [];
  #lines = { sinceMs: 0, count: 0 };

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
        parkedMax: cores + 1 + Math.min(cores, otherCodeMax),
        shape: firstShape,
        silenceMsMax: silenceMs(options.jobLeaseMs),
      },
    );
    const sha256 = (bytes: Uint8Array): string => ports.sha256(bytes);
    this.#units = new UnitExecutor({
      ...{ clock, cores, pool: this.#pool },
      bundles: new BundleCache({ clock, random: random.fork('bundles'), registry, sha256 }),
      ended: (news) => this.#teller.reportEnd(news),
      progressed: (unit) => this.#teller.reportProgress(unit),
      logged: (unit, level, text) => this.#said(unit, level, text),
      runnerKilled: ({ name }, reason) => ports.emit({ kind: 'runner.killed', ...shown(name), reason }),
    });
    const leader = (): Peer | undefined => ports.leader();
    const ask: WorkerPorts['request'] = (to, message, timeoutMs, done) =>
      ports.request(to, message, timeoutMs, (outcome) => runGuarded(halted, () => done(outcome)));
    const stop = (names: readonly AttemptId[]): void => this.#superseded(names);
    this.#teller = new UnitReporter({
      ...{ clock, random: random.fork('teller'), generation: self.generation, leader, ask, stop },
      allAcknowledged: () => this.#quiet(),
    });
    this.#lease = new WorkerLease(
      {
        ...{ clock, random: random.fork('lease'), leader, request: ask, stop },
        heartbeat: () => this.#report(),
        granted: () => this.#pool.warmUp(),
        expired: (withinMs) => this.#expired(withinMs),
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
    if (generation !== this.#ports.self.generation)
      return reply(failure('FENCED', 'another life of this node is meant', 'no'));
    if (!this.#lease.acceptsTerm(term)) return reply(failure('FENCED', 'a later leader is known here', 'no'));
    runGuarded(this.#halted, () => {
      const taken = units.map((unit) => this.#units.accept(unit, this.#refusal()));
      reply(success({ kind: 'assignUnitsReply', units: taken }));
    });
  }

  stopUnits(_from: Identity, message: JobMessageOf<'stopUnits'>, reply: Done<JobMessageOf<'stopUnitsReply'>>): void {
    if (!this.#lease.acceptsTerm(message.term)) return reply(failure('FENCED', 'a later leader is known here', 'no'));
    const as = message.reason === 'timeout' ? 'timeout' : 'cancelled';
    const cause: StopCause = { why: message.reason, as, graceMs };
    this.#stopUnits(message.units, cause, () => {
      reply(success({ kind: 'stopUnitsReply' }));
    });
  }

  /** `leader()` may answer differently now. */
  leaderChanged(): void {
    this.#lease.leaderChanged();
    this.#teller.leaderChanged();
  }

  /** Draining takes nothing new. */
  setDraining(on: boolean): void {
    if (on === this.#isDraining) return;
    this.#isDraining = on;
    if (on) runGuarded(this.#halted, () => this.#units.returnQueued('the worker is being drained'));
    this.#lease.renewNow();
  }

  coreCounts(): { readonly total: number; readonly free: number } {
    return this.#units.cores;
  }

  aliveRunners(): number {
    return this.#pool.aliveCount;
  }

  /** What it has, as one number that differs when that differs, whatever the order. */
  attemptsDigest(): number {
    let digest = 0;
    for (const name of this.#units.names()) digest = (digest + hashed(attemptText(name))) >>> 0;
    return digest;
  }

  runningUnits(): number {
    return this.#units.count;
  }

  /** Calls back when nothing runs and every end was heard, for draining. */
  whenIdle(done: Done<void>): void {
    this.#idle.push(done);
    this.#clock.schedule(0, () => this.#quiet());
  }

  /** Gives running units back (`returned`), within a bound, and ends all runners. */
  stop(done: Done<void>): void {
    this.#stops.push(done);
    if (this.#isStopping) return;
    this.#isStopping = true;
    runGuarded(this.#halted, () => {
      this.#units.stopAll({ why: 'the worker stops', as: 'returned', graceMs: stopGraceMs });
    });
    this.whenIdle(() => this.#close());
    this.#clock.schedule(stopMsMax, () => this.#close());
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#lease.close();
    this.#teller.close();
    this.#pool.close(() => {
      for (const done of this.#stops.splice(0)) done(success(undefined));
    });
  }

  #refusal(): UnitAcceptance | undefined {
    if (this.#isDraining || this.#isStopping) return { code: 'DRAINED', message: 'this worker takes nothing new' };
    if (!this.#lease.holds) return { code: 'CAPACITY', message: 'this worker has not been heard by a leader lately' };
    const { unacknowledgedBytes, unacknowledgedCount } = this.#teller;
    const isFull = unacknowledgedBytes > unheardBytesMax || unacknowledgedCount + this.#units.count >= namesMax;
    return isFull ? { code: 'CAPACITY', message: 'too many ends wait to be heard' } : undefined;
  }

  #stopUnits(names: readonly AttemptId[], cause: StopCause, done: () => void): void {
    let left = names.length + 1;
    const one = (): void => {
      left -= 1;
      if (left === 0) done();
    };
    runGuarded(this.#halted, () => {
      for (const name of names) this.#units.stop(name, cause, one);
      one();
    });
  }

  #superseded(names: readonly AttemptId[]): void {
    this.#stopUnits(names, { why: 'superseded', as: 'cancelled', graceMs: 0 }, () => undefined);
  }

  #report(): JobMessageOf<'workerHeartbeat'> {
    const { self, isolation } = this.#ports;
    const { total } = this.#units.cores;
    const attempts = [...this.#units.names(), ...this.#teller.unacknowledgedIds()];
    return {
      ...{ kind: 'workerHeartbeat', generation: self.generation, coresTotal: total, attempts, isolation },
      ...{ loadLevel: this.#ports.loadLevel(), draining: this.#isDraining || this.#isStopping },
    };
  }

  #expired(withinMs: number): void {
    if (this.#units.count === 0) return;
    this.#ports.emit({ kind: 'worker.orphaned', units: this.#units.count });
    const why = 'no leader has heard this worker for too long';
    this.#units.stopAll({ why, as: 'returned', graceMs: Math.min(graceMs, withinMs) });
  }

  #quiet(): void {
    if (this.#units.count > 0 || this.#teller.unacknowledgedCount > 0) return;
    for (const done of this.#idle.splice(0)) done(success(undefined));
  }

  /** Lines of authors are for the log of the node; a flood of them is cut off. */
  #said({ name }: UnitAttempt, level: string, text: string): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#lines.sinceMs >= 1_000) this.#lines = { sinceMs: nowMs, count: 0 };
    this.#lines.count += 1;
    if (this.#lines.count > linesPerSecondMax) return;
    this.#ports.emit({ kind: 'job.said', ...shown(name), level, text });
  }
}

/** A node that stands still (SIGSTOP) cannot stop what it runs; after this its runners do so, before others begin. */
function silenceMs(leaseMs: number): number {
  return Math.max(silenceMsMin, leaseMs * silenceShare);
}

function attemptText({ job, workflow, unit, attempt, fence }: AttemptId): string {
  return `${job}/${workflow}/${unit}/${attempt}/${fence}`;
}

/** FNV-1a over the characters. */
function hashed(text: string): number {
  let hash = 0x811c_9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x0100_0193) >>> 0;
  return hash;
}

function shown({ job, workflow, unit, attempt }: AttemptId): Record<string, string | number> {
  return { job, workflow, unit, attempt };
}
