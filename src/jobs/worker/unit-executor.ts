/**
 * Executes units on the cores of this worker. Reports exactly one end per accepted unit; frees a core only after its
 * unit ended cleanly or its process has exited.
 */
import { assert } from '../../base/assert.ts';
import { CompactingMap, CompactingSet } from '../../base/collections/compacting-map.ts';
import type { ErrorCode, Outcome } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { AttemptId, UnitAssignment, UnitReport } from '../../messages/jobs.ts';
import { AttemptHistory, compareAttempts, unitKey } from './attempt-history.ts';
import type { BundleCache } from './bundle-cache.ts';
import { CoreSlots } from './core-slots.ts';
import type { RunEvent, RunnerHandle } from './runner-handle.ts';
import type { RunnerPool } from './runner-pool.ts';
import { UnitTimeouts } from './unit-timeouts.ts';
import {
  type RunEndedEvent,
  type StopCause,
  UnitAttempt,
  canShareRunner,
  parseRequirements,
  recordProgress,
  userErrorCode,
} from './unit-attempt.ts';
import { WaitQueue } from './wait-queue.ts';

export type UnitExecutorPorts = {
  readonly clock: Clock;
  readonly cores: number;
  readonly pool: Pick<RunnerPool, 'take' | 'release' | 'discard'>;
  readonly bundles: Pick<BundleCache, 'get' | 'fetch'>;
  /** Called once for each accepted unit. */
  ended(report: UnitReport): void;
  /** The unit started or has new counts. */
  progressed(unit: UnitAttempt): void;
  /** A line of `ctx.log`. */
  logged(unit: UnitAttempt, level: string, text: string): void;
  /** A runner exited while it ran this unit. */
  runnerKilled(unit: UnitAttempt, reason: string): void;
};

export type UnitAcceptance = { readonly code: ErrorCode | undefined; readonly message: string | undefined };

const accepted: UnitAcceptance = { code: undefined, message: undefined };
const superseded: StopCause = { reason: 'superseded by a later attempt', outcome: 'cancelled', graceMs: 0 };
const startFailuresMax = 3;
const startBackoffMs = 300;
const memoryMbMin = 128;
const unitsRemembered = 20_000;
const messageLengthMax = 1_000;
/** How long user code may take to obey a stop. */
export const graceMs = 2_000;

export class UnitExecutor {
  readonly #ports: UnitExecutorPorts;
  readonly #slots: CoreSlots<UnitAttempt>;
  readonly #history = new AttemptHistory(unitsRemembered);
  readonly #active = new CompactingSet<UnitAttempt>();
  /** Latest active attempt by unit. */
  readonly #latest = new CompactingMap<string, UnitAttempt>();
  readonly #waiting: WaitQueue;
  readonly #onCores = new CompactingSet<UnitAttempt>();
  readonly #timeouts: UnitTimeouts;

  constructor(ports: UnitExecutorPorts) {
    this.#ports = ports;
    this.#slots = new CoreSlots(ports.cores);
    this.#timeouts = new UnitTimeouts(ports.clock, this.#onCores, (unit) => {
      this.#stop(unit, { reason: `it ran longer than ${unit.requirements.timeoutMs} ms`, outcome: 'timeout', graceMs });
    });
    this.#waiting = new WaitQueue(ports.clock, ports.cores, (unit) => {
      this.#finish(unit, 'returned', { message: 'no core became free within 500 ms' });
    });
  }

  get cores(): { readonly total: number; readonly free: number } {
    return { total: this.#slots.total, free: this.#slots.free };
  }

  get count(): number {
    return this.#active.size;
  }

  *attemptIds(): Iterable<AttemptId> {
    for (const { id } of this.#active) yield id;
  }

  /** With a `refusal` no new attempt is accepted; a duplicate of an accepted one still is. */
  accept(assignment: UnitAssignment, refusal: UnitAcceptance | undefined): UnitAcceptance {
    const key = unitKey(assignment);
    const kind = this.#history.classify(key, assignment);
    if (kind === 'duplicate') return accepted;
    if (kind === 'stopped') return { code: 'CANCELLED', message: 'this attempt was stopped before it was assigned' };
    if (kind === 'stale') return { code: 'FENCED', message: 'a later attempt of this unit is known here' };
    const requirements = parseRequirements(assignment);
    if (requirements === undefined)
      return { code: 'MALFORMED', message: 'the unit spec cannot be decoded or belongs to another unit' };
    const { mayWait, spec } = assignment;
    const hasCapacity = this.#slots.free > 0 || (mayWait && this.#waiting.hasCapacityFor(spec.length));
    const rejected = refusal ?? (hasCapacity ? undefined : { code: 'CAPACITY', message: 'no core is free' });
    if (rejected !== undefined) {
      // The manager assigns the unit elsewhere, and a duplicate of this message may still arrive.
      this.#history.recordStopped(key, assignment);
      return rejected;
    }
    this.#history.recordAssigned(key, assignment);
    this.#enter(new UnitAttempt(key, assignment, requirements, this.#ports.clock.nowMs()));
    return accepted;
  }

  /** Stops this attempt and all earlier ones of the unit, also those that arrive later. Calls back when none runs. */
  stop(id: AttemptId, cause: StopCause, done: () => void): void {
    const key = unitKey(id);
    this.#history.recordStopped(key, id);
    const units = [...this.#attemptsOf(key)].filter((unit) => compareAttempts(unit.id, id) <= 0);
    let left = units.length;
    if (left === 0) return done();
    for (const unit of units) {
      unit.onEnded.push(() => {
        left -= 1;
        if (left === 0) done();
      });
      this.#stop(unit, cause);
    }
  }

  /** Calls back when no unit runs. */
  stopAll(cause: StopCause, done: () => void = () => undefined): void {
    for (const unit of [...this.#active]) this.#stop(unit, cause);
    this.onceIdle(done);
  }

  returnQueued(message: string): void {
    for (const unit of this.#waiting.takeAll()) this.#finish(unit, 'returned', { message });
  }

  onceIdle(done: () => void): void {
    const [unit] = this.#active;
    if (unit === undefined) done();
    else unit.onEnded.push(() => this.onceIdle(done));
  }

  *#attemptsOf(key: string): Iterable<UnitAttempt> {
    if (!this.#latest.has(key)) return;
    for (const unit of this.#active) if (unit.key === key) yield unit;
  }

  #enter(unit: UnitAttempt): void {
    if (this.#latest.has(unit.key))
      for (const earlier of [...this.#attemptsOf(unit.key)]) this.#stop(earlier, superseded);
    this.#active.add(unit);
    this.#latest.set(unit.key, unit);
    if (this.#slots.free > 0) return this.#start(unit);
    this.#waiting.push(unit);
    this.#prefetchToShortest();
  }

  /** Starts waiting units as long as cores are free. */
  #startWaiting(): void {
    while (this.#slots.free > 0) {
      const unit = this.#waiting.shift();
      if (unit === undefined) return;
      this.#start(unit);
    }
  }

  #acquireCore(unit: UnitAttempt): void {
    unit.core = this.#slots.acquire(unit);
    assert(unit.core !== undefined, 'a unit starts on a free core');
    this.#onCores.add(unit);
    this.#timeouts.start(unit);
  }

  #releaseCore(unit: UnitAttempt): void {
    if (unit.core === undefined) return;
    this.#slots.release(unit.core, unit);
    unit.core = undefined;
    this.#onCores.delete(unit);
  }

  #start(unit: UnitAttempt): void {
    const { bundle } = unit.requirements;
    this.#acquireCore(unit);
    unit.state = 'preparing';
    const code = this.#ports.bundles.get(bundle);
    if (code !== undefined) return this.#launch(unit, code);
    this.#ports.bundles.fetch(bundle, (outcome) => {
      if (unit.state === 'preparing') this.#onCode(unit, outcome);
    });
  }

  #onCode(unit: UnitAttempt, outcome: Outcome<Uint8Array>): void {
    if (outcome.ok) return this.#launch(unit, outcome.value);
    const { code, message } = outcome.error;
    if (code === 'BUNDLE_INVALID' || code === 'UNKNOWN_BUNDLE') this.#finish(unit, 'failed', { code, message });
    else this.#finish(unit, 'returned', { message: `cannot fetch the bundle: ${message}` });
  }

  #launch(unit: UnitAttempt, code: Uint8Array): void {
    const { network, memoryMb, bundle, submitter } = unit.requirements;
    const profile = { network, memoryMb: Math.max(memoryMbMin, memoryMb) };
    const { runner, hasCode } = this.#ports.pool.take({ profile, bundle, submitter });
    unit.state = 'running';
    unit.runner = runner;
    unit.runId = runner.run(unit, hasCode ? undefined : code, {
      event: (event) => this.#onEvent(unit, event),
      gone: (reason) => {
        // A reused runner may crash because of the unit before; without `started` this unit has not started.
        const hasStarted = runner.wasReady && !(hasCode && unit.startedMs === undefined);
        if (unit.stopCause === undefined && !hasStarted) this.#onStartFailed(unit, code, reason);
        else this.#onRunnerDied(unit, reason);
      },
    });
    this.#fillRunnerOf(unit);
  }

  /** Prefetches into the runner with the largest capacity. */
  #prefetchToShortest(): void {
    let best: UnitAttempt | undefined;
    for (const unit of this.#onCores) {
      if ((unit.runner?.prefetchCapacity ?? 0) > (best?.runner?.prefetchCapacity ?? 0)) best = unit;
    }
    if (best !== undefined) this.#fillRunnerOf(best);
  }

  /** Prefetches the next units into the runner of this unit, which then starts them without a round trip. */
  #fillRunnerOf(unit: UnitAttempt): void {
    const { runner } = unit;
    if (runner === undefined) return;
    for (let left = runner.prefetchCapacity; left > 0 && unit.state === 'running'; left--) {
      const { first } = this.#waiting;
      if (first === undefined || !canShareRunner(first, unit)) return;
      this.#prefetch(first, unit, runner);
    }
  }

  #prefetch(unit: UnitAttempt, before: UnitAttempt, runner: RunnerHandle): void {
    this.#waiting.remove(unit);
    unit.state = 'prefetched';
    unit.runner = runner;
    before.prefetched.push(unit);
    unit.runId = runner.run(unit, undefined, {
      event: (event) => this.#onEvent(unit, event),
      gone: (reason) => {
        if (unit.startedMs === undefined && unit.stopCause === undefined) this.#onGoneBeforeStart(unit, reason);
        else this.#onRunnerDied(unit, reason);
      },
    });
  }

  /**
   * The runner exited before it started a prefetched unit: the unit waits again, or with a core gets another runner.
   */
  #onGoneBeforeStart(unit: UnitAttempt, reason: string): void {
    const code = this.#ports.bundles.get(unit.requirements.bundle);
    if (unit.core !== undefined && code !== undefined) return this.#onStartFailed(unit, code, reason);
    unit.startFailures += 1;
    if (unit.core !== undefined || unit.startFailures >= startFailuresMax)
      return this.#finish(unit, 'returned', { message: `its runner exited before the unit started: ${reason}` });
    unit.state = 'waiting';
    unit.runner = undefined;
    this.#waiting.push(unit);
    this.#startWaiting();
  }

  /** The runner goes on with the next prefetched unit, on the same core. */
  #passCore(unit: UnitAttempt, next: UnitAttempt): void {
    next.prefetched = unit.prefetched;
    unit.prefetched = [];
    this.#releaseCore(unit);
    this.#acquireCore(next);
    next.state = next.stopCause === undefined ? 'running' : 'stopping';
    this.#fillRunnerOf(next);
  }

  /** No user code has run, so another process can try. */
  #onStartFailed(unit: UnitAttempt, code: Uint8Array, reason: string): void {
    unit.startFailures += 1;
    if (unit.startFailures >= startFailuresMax) return this.#onRunnerDied(unit, `cannot start a runner: ${reason}`);
    unit.state = 'preparing';
    unit.runner = undefined;
    const backoffMs = unit.startFailures === 1 ? 0 : startBackoffMs;
    this.#ports.clock.schedule(backoffMs, () => {
      if (unit.state === 'preparing') this.#launch(unit, code);
    });
  }

  #onEvent(unit: UnitAttempt, event: RunEvent): void {
    switch (event.kind) {
      case 'started':
        unit.startedMs ??= this.#ports.clock.nowMs();
        return this.#ports.progressed(unit);
      case 'progress':
        recordProgress(unit, event);
        return this.#ports.progressed(unit);
      case 'log':
        return this.#ports.logged(unit, event.level, event.text);
      case 'ended':
      default:
        return this.#onRunEnded(unit, event);
    }
  }

  #onRunEnded(unit: UnitAttempt, event: RunEndedEvent): void {
    const { runner } = unit;
    if (unit.state === 'prefetched') return this.#onEndedBeforeStart(unit);
    recordProgress(unit, event);
    unit.startedMs ??= this.#ports.clock.nowMs();
    const { output, found, failures, outcome, tainted, message } = event;
    if (outcome === 'completed' && tainted !== true && unit.stopCause === undefined && runner !== undefined) {
      runner.recordDuration(this.#ports.clock.nowMs() - unit.startedMs);
      const next = unit.prefetched.shift();
      if (next === undefined) this.#ports.pool.release(runner);
      else this.#passCore(unit, next);
      return this.#finish(unit, 'completed', { output, found, failures });
    }
    // Timers and requests that it left open end with the process; only then the core is free.
    unit.state = 'stopping';
    const finish = (): void => {
      if (outcome === 'completed') this.#finish(unit, 'completed', { output, found, failures });
      else if (unit.stopCause !== undefined) this.#finishStopped(unit, unit.stopCause);
      else if (outcome === 'cancelled') this.#finish(unit, 'cancelled', { message });
      else this.#finish(unit, 'failed', { code: userErrorCode(event.code), message, output });
    };
    if (runner === undefined || runner.isGone) return finish();
    runner.onceGone(finish);
    this.#ports.pool.discard(runner);
  }

  /** A prefetched unit may end before it starts only if it was asked to stop. */
  #onEndedBeforeStart(unit: UnitAttempt): void {
    if (unit.stopCause !== undefined) return this.#finishStopped(unit, unit.stopCause);
    if (unit.runner !== undefined) this.#ports.pool.discard(unit.runner);
    this.#onRunnerDied(unit, 'protocol: the runner sent ended for a run that it had not started');
  }

  #onRunnerDied(unit: UnitAttempt, reason: string): void {
    if (unit.stopCause !== undefined) return this.#finishStopped(unit, unit.stopCause);
    this.#ports.runnerKilled(unit, reason);
    this.#finish(unit, 'failed', { code: 'RUNNER_KILLED', message: reason.slice(0, messageLengthMax) });
  }

  #finishStopped(unit: UnitAttempt, { outcome, reason: message }: StopCause): void {
    if (outcome === 'timeout') this.#finish(unit, 'failed', { code: 'WORKFLOW_TIMEOUT', message });
    else this.#finish(unit, outcome, { message });
  }

  /** The first cause counts, and the shortest grace. */
  #stop(unit: UnitAttempt, cause: StopCause): void {
    if (unit.state === 'ended') return;
    unit.stopCause ??= cause;
    const { runner } = unit;
    if (runner === undefined) {
      this.#waiting.remove(unit);
      return this.#finishStopped(unit, unit.stopCause);
    }
    const isPrefetched = unit.state === 'prefetched';
    if (isPrefetched || unit.state === 'running') runner.stop(unit.runId, unit.stopCause.reason);
    if (!isPrefetched) unit.state = 'stopping';
    unit.cancelGraceTimer?.();
    // A kill would also hit the unit that runs in this runner, so the runner gets the full grace to reply.
    const ownGraceMs = isPrefetched ? Math.max(graceMs, cause.graceMs) : cause.graceMs;
    if (ownGraceMs <= 0) return this.#ports.pool.discard(runner);
    const atMs = this.#ports.clock.nowMs() + ownGraceMs;
    unit.graceEndMs = Math.min(unit.graceEndMs, atMs);
    const waitMs = unit.graceEndMs - this.#ports.clock.nowMs();
    unit.cancelGraceTimer = this.#ports.clock.schedule(Math.max(0, waitMs), () => this.#ports.pool.discard(runner));
  }

  #removePrefetched(unit: UnitAttempt): void {
    for (const { prefetched } of this.#onCores) {
      const at = prefetched.indexOf(unit);
      if (at >= 0) prefetched.splice(at, 1);
    }
  }

  #finish(unit: UnitAttempt, status: UnitReport['status'], more: Partial<UnitReport>): void {
    if (unit.state === 'ended') return;
    if (unit.state === 'prefetched') this.#removePrefetched(unit);
    unit.state = 'ended';
    unit.cancelGraceTimer?.();
    this.#active.delete(unit);
    if (this.#active.size === 0) this.#timeouts.clear();
    if (this.#latest.get(unit.key) === unit) this.#latest.delete(unit.key);
    this.#releaseCore(unit);
    this.#ports.ended(unit.report(this.#ports.clock.nowMs(), status, more));
    if (unit.onEnded.length > 0) for (const done of unit.onEnded.splice(0)) done();
    this.#startWaiting();
  }
}
