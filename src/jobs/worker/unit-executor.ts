/**
 * Executes units: core, runner, stop, timeout, and one reported end per unit. A core is free only when its unit ended
 * cleanly or its process is gone.
 */
import { assert } from '../../base/assert.ts';
import { CompactingMap, CompactingSet } from '../../base/collections/compacting-map.ts';
import type { ErrorCode, Outcome } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { AttemptId, UnitAssignment, UnitReport } from '../../messages/jobs.ts';
import type { RunnerEvent } from '../runner-protocol.ts';
import { AttemptHistory, compareAttempts, unitKey } from './attempt-history.ts';
import type { BundleCache } from './bundle-cache.ts';
import { CoreSlots } from './core-slots.ts';
import type { RunnerHandle } from './runner-handle.ts';
import type { RunnerPool } from './runner-pool.ts';
import { UnitTimeouts } from './unit-timeouts.ts';
import { type RunEndedEvent, type StopCause, UnitAttempt } from './unit-attempt.ts';
import { canShareRunner, parseRequirements, recordProgress, userErrorCode } from './unit-reading.ts';
import { WaitQueue } from './wait-queue.ts';

export type UnitExecutorPorts = {
  readonly clock: Clock;
  readonly cores: number;
  readonly pool: Pick<RunnerPool, 'take' | 'release' | 'discard'>;
  readonly bundles: Pick<BundleCache, 'get' | 'fetch'>;
  /** Called once for each unit that was taken. */
  ended(news: UnitReport): void;
  /** There is something new to tell of it. */
  progressed(unit: UnitAttempt): void;
  /** A line of the author's. */
  logged(unit: UnitAttempt, level: string, text: string): void;
  /** A runner died with this unit in it. */
  runnerKilled(unit: UnitAttempt, reason: string): void;
};

export type UnitAcceptance = { readonly code: ErrorCode | undefined; readonly message: string | undefined };

const taken: UnitAcceptance = { code: undefined, message: undefined };
const superseded: StopCause = { why: 'a later attempt is here', as: 'cancelled', graceMs: 0 };
const startFailuresMax = 3;
const startPauseMs = 300;
const memoryMbMin = 128;
const attemptsKept = 20_000;
const whyLengthMax = 1_000;
/** So long may the code of users take to heed a stop. */
export const graceMs = 2_000;

export class UnitExecutor {
  readonly #ports: UnitExecutorPorts;
  readonly #slots: CoreSlots<UnitAttempt>;
  readonly #memory = new AttemptHistory(attemptsKept);
  readonly #living = new CompactingSet<UnitAttempt>();
  /** Of each unit the latest attempt that lives. */
  readonly #latest = new CompactingMap<string, UnitAttempt>();
  readonly #line: WaitQueue;
  readonly #onCores = new CompactingSet<UnitAttempt>();
  readonly #timeouts: UnitTimeouts;

  constructor(ports: UnitExecutorPorts) {
    this.#ports = ports;
    this.#slots = new CoreSlots(ports.cores);
    this.#timeouts = new UnitTimeouts(ports.clock, this.#onCores, (unit) => {
      this.#end(unit, { why: `it ran longer than ${unit.requirements.timeoutMs} ms`, as: 'timeout', graceMs });
    });
    this.#line = new WaitQueue(ports.clock, ports.cores, (unit) => {
      this.#over(unit, 'returned', { message: 'no core became free in time' });
    });
  }

  get cores(): { readonly total: number; readonly free: number } {
    return { total: this.#slots.total, free: this.#slots.free };
  }

  get count(): number {
    return this.#living.size;
  }

  *names(): Iterable<AttemptId> {
    for (const { name } of this.#living) yield name;
  }

  /** `refusal`: why nothing new is taken at this moment. What was taken before is still known. */
  accept(given: UnitAssignment, refusal: UnitAcceptance | undefined): UnitAcceptance {
    const key = unitKey(given);
    const verdict = this.#memory.classify(key, given);
    if (verdict === 'again') return taken;
    if (verdict === 'stopped') return { code: 'CANCELLED', message: 'this attempt was to be stopped' };
    if (verdict === 'old') return { code: 'FENCED', message: 'a later attempt of this unit is known here' };
    const needs = parseRequirements(given);
    if (needs === undefined)
      return { code: 'MALFORMED', message: 'the order cannot be read, or is one of another unit' };
    const hasRoom = this.#slots.free > 0 || (given.mayWait && this.#line.hasCapacityFor(given.spec.length));
    const why = refusal ?? (hasRoom ? undefined : { code: 'CAPACITY', message: 'no core is free' });
    if (why !== undefined) {
      // Who hears that gives it to somebody else; and the same words may still come a second time.
      this.#memory.recordStopped(key, given);
      return why;
    }
    this.#memory.recordAssigned(key, given);
    this.#enter(new UnitAttempt(key, given, needs, this.#ports.clock.nowMs()));
    return taken;
  }

  /** Ends it, and all earlier attempts of the same unit, now or when they come. Calls back when none runs. */
  stop(name: AttemptId, cause: StopCause, done: () => void): void {
    const key = unitKey(name);
    this.#memory.recordStopped(key, name);
    const units = [...this.#attemptsOf(key)].filter((unit) => compareAttempts(unit.name, name) <= 0);
    let left = units.length;
    if (left === 0) return done();
    for (const unit of units) {
      unit.onOver.push(() => {
        left -= 1;
        if (left === 0) done();
      });
      this.#end(unit, cause);
    }
  }

  /** Calls back when nothing runs. */
  stopAll(cause: StopCause, done: () => void = () => undefined): void {
    for (const unit of [...this.#living]) this.#end(unit, cause);
    this.onceIdle(done);
  }

  returnQueued(why: string): void {
    for (const unit of this.#line.takeAll()) this.#over(unit, 'returned', { message: why });
  }

  onceIdle(done: () => void): void {
    const [unit] = this.#living;
    if (unit === undefined) done();
    else unit.onOver.push(() => this.onceIdle(done));
  }

  *#attemptsOf(key: string): Iterable<UnitAttempt> {
    if (!this.#latest.has(key)) return;
    for (const unit of this.#living) if (unit.key === key) yield unit;
  }

  #enter(unit: UnitAttempt): void {
    if (this.#latest.has(unit.key))
      for (const earlier of [...this.#attemptsOf(unit.key)]) this.#end(earlier, superseded);
    this.#living.add(unit);
    this.#latest.set(unit.key, unit);
    if (this.#slots.free > 0) return this.#begin(unit);
    this.#line.push(unit);
    this.#fillShortest();
  }

  /** Whoever waits for a core gets one, as long as there are any. */
  #next(): void {
    while (this.#slots.free > 0) {
      const unit = this.#line.shift();
      if (unit === undefined) return;
      this.#begin(unit);
    }
  }

  #takeCore(unit: UnitAttempt): void {
    unit.core = this.#slots.acquire(unit);
    assert(unit.core !== undefined, 'a unit begins on a free core');
    this.#onCores.add(unit);
    this.#timeouts.start(unit);
  }

  #giveCore(unit: UnitAttempt): void {
    if (unit.core === undefined) return;
    this.#slots.release(unit.core, unit);
    unit.core = undefined;
    this.#onCores.delete(unit);
  }

  #begin(unit: UnitAttempt): void {
    const { bundle } = unit.requirements;
    this.#takeCore(unit);
    unit.state = 'preparing';
    const code = this.#ports.bundles.get(bundle);
    if (code !== undefined) return this.#launch(unit, code);
    this.#ports.bundles.fetch(bundle, (outcome) => {
      if (unit.state === 'preparing') this.#fetched(unit, outcome);
    });
  }

  #fetched(unit: UnitAttempt, outcome: Outcome<Uint8Array>): void {
    if (outcome.ok) return this.#launch(unit, outcome.value);
    const { code, message: why } = outcome.error;
    if (code === 'BUNDLE_INVALID' || code === 'UNKNOWN_BUNDLE') this.#over(unit, 'failed', { code, message: why });
    else this.#over(unit, 'returned', { message: `its code could not be fetched: ${why}` });
  }

  #launch(unit: UnitAttempt, code: Uint8Array): void {
    const { network, memoryMb, bundle, submitter } = unit.requirements;
    const shape = { network, memoryMb: Math.max(memoryMbMin, memoryMb) };
    const { link, hasCode } = this.#ports.pool.take({ shape, bundle, submitter });
    unit.state = 'running';
    unit.runner = link;
    unit.runId = link.run(unit, hasCode ? undefined : code, {
      word: (word) => this.#heard(unit, word),
      gone: (reason) => {
        // A used one may die of what the unit before left behind; without `started` it has not begun with this one.
        const hasBegun = link.wasReady && !(hasCode && unit.startedMs === undefined);
        if (unit.stopCause === undefined && !hasBegun) this.#startFailed(unit, code, reason);
        else this.#died(unit, reason);
      },
    });
    this.#fill(unit);
  }

  /** Of those that run what the next one needs, the one that has the fewest behind it gets it. */
  #fillShortest(): void {
    let best: UnitAttempt | undefined;
    for (const unit of this.#onCores) {
      if ((unit.runner?.prefetchCapacity ?? 0) > (best?.runner?.prefetchCapacity ?? 0)) best = unit;
    }
    if (best !== undefined) this.#fill(best);
  }

  /** Gives the runner of this unit what comes next, so that it need not wait for us in between. */
  #fill(unit: UnitAttempt): void {
    const { runner } = unit;
    if (runner === undefined) return;
    for (let room = runner.prefetchCapacity; room > 0 && unit.state === 'running'; room--) {
      const { first } = this.#line;
      if (first === undefined || !canShareRunner(first, unit)) return;
      this.#giveAhead(first, unit, runner);
    }
  }

  #giveAhead(unit: UnitAttempt, before: UnitAttempt, link: RunnerHandle): void {
    this.#line.remove(unit);
    unit.state = 'behind';
    unit.runner = link;
    before.prefetched.push(unit);
    unit.runId = link.run(unit, undefined, {
      word: (word) => this.#heard(unit, word),
      gone: (reason) => {
        if (unit.startedMs === undefined && unit.stopCause === undefined) this.#goneBefore(unit, reason);
        else this.#died(unit, reason);
      },
    });
  }

  /** Its runner is gone, and had not begun with it: it goes on waiting, or if it has a core already gets another runner. */
  #goneBefore(unit: UnitAttempt, reason: string): void {
    const code = this.#ports.bundles.get(unit.requirements.bundle);
    if (unit.core !== undefined && code !== undefined) return this.#startFailed(unit, code, reason);
    unit.startFailures += 1;
    if (unit.core !== undefined || unit.startFailures >= startFailuresMax)
      return this.#over(unit, 'returned', { message: `its runner was gone before it began: ${reason}` });
    unit.state = 'waiting';
    unit.runner = undefined;
    this.#line.push(unit);
    this.#next();
  }

  /** The core passes on within the runner. */
  #follow(unit: UnitAttempt, next: UnitAttempt): void {
    next.prefetched = unit.prefetched;
    unit.prefetched = [];
    this.#giveCore(unit);
    this.#takeCore(next);
    next.state = next.stopCause === undefined ? 'running' : 'ending';
    this.#fill(next);
  }

  /** Nobody's code has run yet: another process may have more luck. */
  #startFailed(unit: UnitAttempt, code: Uint8Array, reason: string): void {
    unit.startFailures += 1;
    if (unit.startFailures >= startFailuresMax) return this.#died(unit, `cannot start a runner: ${reason}`);
    unit.state = 'preparing';
    unit.runner = undefined;
    const pauseMs = unit.startFailures === 1 ? 0 : startPauseMs;
    this.#ports.clock.schedule(pauseMs, () => {
      if (unit.state === 'preparing') this.#launch(unit, code);
    });
  }

  #heard(unit: UnitAttempt, word: Exclude<RunnerEvent, { readonly kind: 'ready' }>): void {
    switch (word.kind) {
      case 'started':
        unit.startedMs ??= this.#ports.clock.nowMs();
        return this.#ports.progressed(unit);
      case 'progress':
        recordProgress(unit, word);
        return this.#ports.progressed(unit);
      case 'said':
        return this.#ports.logged(unit, word.level, word.text);
      case 'ended':
      default:
        return this.#ranToItsEnd(unit, word);
    }
  }

  #ranToItsEnd(unit: UnitAttempt, word: RunEndedEvent): void {
    const { runner } = unit;
    if (unit.state === 'behind') return this.#endedBefore(unit);
    recordProgress(unit, word);
    unit.startedMs ??= this.#ports.clock.nowMs();
    const { output, found, failures, what, tainted } = word;
    if (what === 'completed' && tainted !== true && unit.stopCause === undefined && runner !== undefined) {
      runner.recordDuration(this.#ports.clock.nowMs() - unit.startedMs);
      const next = unit.prefetched.shift();
      if (next === undefined) this.#ports.pool.release(runner);
      else this.#follow(unit, next);
      return this.#over(unit, 'completed', { output, found, failures });
    }
    // Whatever it left behind (timers, open requests) ends with its process, and its core is free only then.
    unit.state = 'ending';
    const end = (): void => {
      if (what === 'completed') this.#over(unit, 'completed', { output, found, failures });
      else if (unit.stopCause !== undefined) this.#stopped(unit, unit.stopCause);
      else if (what === 'cancelled') this.#over(unit, 'cancelled', { message: word.why });
      else this.#over(unit, 'failed', { code: userErrorCode(word.code), message: word.why, output });
    };
    if (runner === undefined || runner.isGone) return end();
    runner.onceGone(end);
    this.#ports.pool.discard(runner);
  }

  /** Only what was told to stop may end before its turn. */
  #endedBefore(unit: UnitAttempt): void {
    if (unit.stopCause !== undefined) return this.#stopped(unit, unit.stopCause);
    if (unit.runner !== undefined) this.#ports.pool.discard(unit.runner);
    this.#died(unit, 'protocol: it ended what it had not begun');
  }

  #died(unit: UnitAttempt, reason: string): void {
    if (unit.stopCause !== undefined) return this.#stopped(unit, unit.stopCause);
    this.#ports.runnerKilled(unit, reason);
    this.#over(unit, 'failed', { code: 'RUNNER_KILLED', message: reason.slice(0, whyLengthMax) });
  }

  #stopped(unit: UnitAttempt, { as, why }: StopCause): void {
    if (as === 'timeout') this.#over(unit, 'failed', { code: 'WORKFLOW_TIMEOUT', message: why });
    else this.#over(unit, as, { message: why });
  }

  /** The first cause counts, and the shortest grace. */
  #end(unit: UnitAttempt, cause: StopCause): void {
    if (unit.state === 'over') return;
    unit.stopCause ??= cause;
    const { runner } = unit;
    if (runner === undefined) {
      this.#line.remove(unit);
      return this.#stopped(unit, unit.stopCause);
    }
    const isBehind = unit.state === 'behind';
    if (isBehind || unit.state === 'running') runner.stop(unit.runId, unit.stopCause.why);
    if (!isBehind) unit.state = 'ending';
    unit.cancelGraceTimer?.();
    // The one before it in the same runner has done nothing wrong: that runner has time to answer.
    const ownGraceMs = isBehind ? Math.max(graceMs, cause.graceMs) : cause.graceMs;
    if (ownGraceMs <= 0) return this.#ports.pool.discard(runner);
    const atMs = this.#ports.clock.nowMs() + ownGraceMs;
    unit.graceEndMs = Math.min(unit.graceEndMs, atMs);
    const waitMs = unit.graceEndMs - this.#ports.clock.nowMs();
    unit.cancelGraceTimer = this.#ports.clock.schedule(Math.max(0, waitMs), () => this.#ports.pool.discard(runner));
  }

  #leave(unit: UnitAttempt): void {
    for (const { prefetched } of this.#onCores) {
      const at = prefetched.indexOf(unit);
      if (at >= 0) prefetched.splice(at, 1);
    }
  }

  #over(unit: UnitAttempt, what: UnitReport['status'], more: Partial<UnitReport>): void {
    if (unit.state === 'over') return;
    if (unit.state === 'behind') this.#leave(unit);
    unit.state = 'over';
    unit.cancelGraceTimer?.();
    this.#living.delete(unit);
    if (this.#living.size === 0) this.#timeouts.clear();
    if (this.#latest.get(unit.key) === unit) this.#latest.delete(unit.key);
    this.#giveCore(unit);
    this.#ports.ended(unit.end(this.#ports.clock.nowMs(), what, more));
    if (unit.onOver.length > 0) for (const done of unit.onOver.splice(0)) done();
    this.#next();
  }
}
