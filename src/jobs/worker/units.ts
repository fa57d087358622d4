/**
 * What a worker runs: takes units, gives each a core and a runner, ends those that must end, and tells the end of each
 * exactly once. A core is given back when its unit is over, that is: when the runner has ended it well, or when the
 * process of the runner is gone. Whatever happens to a unit, one of its timers or the end of its process gets it there.
 */
import { assert } from '../../base/assert.ts';
import { CompactingMap, CompactingSet } from '../../base/collections/compacting-map.ts';
import type { ErrorCode, Outcome } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { AttemptId, UnitAssignment, UnitReport } from '../../messages/jobs.ts';
import type { FromRunner } from '../runner-words.ts';
import { AttemptMemory, compareAttempts, unitKey } from './attempt-memory.ts';
import type { BundleCache } from './bundle-cache.ts';
import { CoreSlots } from './core-slots.ts';
import type { RunnerLink } from './runner-link.ts';
import type { RunnerPool } from './runner-pool.ts';
import { Timeouts } from './timeouts.ts';
import { type RunEnd, type StopCause, Unit } from './unit.ts';
import { canFollow, needsOf, note, userCode } from './unit-reading.ts';
import { WaitingLine } from './waiting-line.ts';

export type UnitsPorts = {
  readonly clock: Clock;
  readonly cores: number;
  readonly pool: Pick<RunnerPool, 'take' | 'park' | 'drop'>;
  readonly bundles: Pick<BundleCache, 'get' | 'want'>;
  /** Called once for each unit that was taken. */
  ended(news: UnitReport): void;
  /** There is something new to tell of it. */
  progressed(unit: Unit): void;
  /** A line of the author's. */
  said(unit: Unit, level: string, text: string): void;
  /** A runner died with this unit in it. */
  killed(unit: Unit, reason: string): void;
};

export type Taken = { readonly code: ErrorCode | undefined; readonly why: string | undefined };

const taken: Taken = { code: undefined, why: undefined };
const superseded: StopCause = { why: 'a later attempt is here', as: 'cancelled', graceMs: 0 };
const startFailuresMax = 3;
const startPauseMs = 300;
const memoryMbMin = 128;
const attemptsKept = 20_000;
const whyLengthMax = 1_000;
/** So long may the code of users take to heed a stop. */
export const graceMs = 2_000;

export class Units {
  readonly #ports: UnitsPorts;
  readonly #slots: CoreSlots<Unit>;
  readonly #memory = new AttemptMemory(attemptsKept);
  readonly #living = new CompactingSet<Unit>();
  /** Of each unit the latest attempt that lives. */
  readonly #latest = new CompactingMap<string, Unit>();
  readonly #line: WaitingLine;
  readonly #onCores = new CompactingSet<Unit>();
  readonly #timeouts: Timeouts;

  constructor(ports: UnitsPorts) {
    this.#ports = ports;
    this.#slots = new CoreSlots(ports.cores);
    this.#timeouts = new Timeouts(ports.clock, this.#onCores, (unit) => {
      this.#end(unit, { why: `it ran longer than ${unit.needs.timeoutMs} ms`, as: 'timeout', graceMs });
    });
    this.#line = new WaitingLine(ports.clock, ports.cores, (unit) => {
      this.#over(unit, 'returned', { why: 'no core became free in time' });
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
  take(given: UnitAssignment, refusal: Taken | undefined): Taken {
    const key = unitKey(given);
    const verdict = this.#memory.look(key, given);
    if (verdict === 'again') return taken;
    if (verdict === 'stopped') return { code: 'CANCELLED', why: 'this attempt was to be stopped' };
    if (verdict === 'old') return { code: 'FENCED', why: 'a later attempt of this unit is known here' };
    const needs = needsOf(given);
    if (needs === undefined) return { code: 'MALFORMED', why: 'the order cannot be read, or is one of another unit' };
    const hasRoom = this.#slots.free > 0 || (given.mayWait && this.#line.hasRoomFor(given.spec.length));
    const why = refusal ?? (hasRoom ? undefined : { code: 'CAPACITY', why: 'no core is free' });
    if (why !== undefined) {
      // Who hears that gives it to somebody else; and the same words may still come a second time.
      this.#memory.stopped(key, given);
      return why;
    }
    this.#memory.given(key, given);
    this.#enter(new Unit(key, given, needs, this.#ports.clock.nowMs()));
    return taken;
  }

  /** Ends it, and all earlier attempts of the same unit, now or when they come. Calls back when none runs. */
  stop(name: AttemptId, cause: StopCause, done: () => void): void {
    const key = unitKey(name);
    this.#memory.stopped(key, name);
    const units = [...this.#attemptsOf(key)].filter((unit) => compareAttempts(unit.name, name) <= 0);
    let left = units.length;
    if (left === 0) return done();
    for (const unit of units) {
      unit.whenOver.push(() => {
        left -= 1;
        if (left === 0) done();
      });
      this.#end(unit, cause);
    }
  }

  /** Calls back when nothing runs. */
  stopAll(cause: StopCause, done: () => void = () => undefined): void {
    for (const unit of [...this.#living]) this.#end(unit, cause);
    this.whenNone(done);
  }

  stopWaiting(why: string): void {
    for (const unit of this.#line.takeAll()) this.#over(unit, 'returned', { why });
  }

  whenNone(done: () => void): void {
    const [unit] = this.#living;
    if (unit === undefined) done();
    else unit.whenOver.push(() => this.whenNone(done));
  }

  *#attemptsOf(key: string): Iterable<Unit> {
    if (!this.#latest.has(key)) return;
    for (const unit of this.#living) if (unit.key === key) yield unit;
  }

  #enter(unit: Unit): void {
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

  #takeCore(unit: Unit): void {
    unit.core = this.#slots.take(unit);
    assert(unit.core !== undefined, 'a unit begins on a free core');
    this.#onCores.add(unit);
    this.#timeouts.watch(unit);
  }

  #giveCore(unit: Unit): void {
    if (unit.core === undefined) return;
    this.#slots.give(unit.core, unit);
    unit.core = undefined;
    this.#onCores.delete(unit);
  }

  #begin(unit: Unit): void {
    const { bundle } = unit.needs;
    this.#takeCore(unit);
    unit.state = 'preparing';
    const code = this.#ports.bundles.get(bundle);
    if (code !== undefined) return this.#launch(unit, code);
    this.#ports.bundles.want(bundle, (outcome) => {
      if (unit.state === 'preparing') this.#fetched(unit, outcome);
    });
  }

  #fetched(unit: Unit, outcome: Outcome<Uint8Array>): void {
    if (outcome.ok) return this.#launch(unit, outcome.value);
    const { code, message: why } = outcome.error;
    if (code === 'BUNDLE_INVALID' || code === 'UNKNOWN_BUNDLE') this.#over(unit, 'failed', { code, why });
    else this.#over(unit, 'returned', { why: `its code could not be fetched: ${why}` });
  }

  #launch(unit: Unit, code: Uint8Array): void {
    const { network, memoryMb, bundle, submitter } = unit.needs;
    const shape = { network, memoryMb: Math.max(memoryMbMin, memoryMb) };
    const { link, hasCode } = this.#ports.pool.take({ shape, bundle, submitter });
    unit.state = 'running';
    unit.link = link;
    unit.run = link.run(unit, hasCode ? undefined : code, {
      word: (word) => this.#heard(unit, word),
      gone: (reason) => {
        // A used one may die of what the unit before left behind; without `started` it has not begun with this one.
        const hasBegun = link.wasReady && !(hasCode && unit.startedMs === undefined);
        if (unit.cause === undefined && !hasBegun) this.#startFailed(unit, code, reason);
        else this.#died(unit, reason);
      },
    });
    this.#fill(unit);
  }

  /** Of those that run what the next one needs, the one that has the fewest behind it gets it. */
  #fillShortest(): void {
    let best: Unit | undefined;
    for (const unit of this.#onCores) {
      if ((unit.link?.roomAhead ?? 0) > (best?.link?.roomAhead ?? 0)) best = unit;
    }
    if (best !== undefined) this.#fill(best);
  }

  /** Gives the runner of this unit what comes next, so that it need not wait for us in between. */
  #fill(unit: Unit): void {
    const { link } = unit;
    if (link === undefined) return;
    for (let room = link.roomAhead; room > 0 && unit.state === 'running'; room--) {
      const { first } = this.#line;
      if (first === undefined || !canFollow(first, unit)) return;
      this.#giveAhead(first, unit, link);
    }
  }

  #giveAhead(unit: Unit, before: Unit, link: RunnerLink): void {
    this.#line.remove(unit);
    unit.state = 'behind';
    unit.link = link;
    before.behind.push(unit);
    unit.run = link.run(unit, undefined, {
      word: (word) => this.#heard(unit, word),
      gone: (reason) => {
        if (unit.startedMs === undefined && unit.cause === undefined) this.#goneBefore(unit, reason);
        else this.#died(unit, reason);
      },
    });
  }

  /** Its runner is gone, and had not begun with it: it goes on waiting, or if it has a core already gets another runner. */
  #goneBefore(unit: Unit, reason: string): void {
    const code = this.#ports.bundles.get(unit.needs.bundle);
    if (unit.core !== undefined && code !== undefined) return this.#startFailed(unit, code, reason);
    unit.startFailures += 1;
    if (unit.core !== undefined || unit.startFailures >= startFailuresMax)
      return this.#over(unit, 'returned', { why: `its runner was gone before it began: ${reason}` });
    unit.state = 'waiting';
    unit.link = undefined;
    this.#line.push(unit);
    this.#next();
  }

  /** The core passes on within the runner. */
  #follow(unit: Unit, next: Unit): void {
    next.behind = unit.behind;
    unit.behind = [];
    this.#giveCore(unit);
    this.#takeCore(next);
    next.state = next.cause === undefined ? 'running' : 'ending';
    this.#fill(next);
  }

  /** Nobody's code has run yet: another process may have more luck. */
  #startFailed(unit: Unit, code: Uint8Array, reason: string): void {
    unit.startFailures += 1;
    if (unit.startFailures >= startFailuresMax) return this.#died(unit, `cannot start a runner: ${reason}`);
    unit.state = 'preparing';
    unit.link = undefined;
    const pauseMs = unit.startFailures === 1 ? 0 : startPauseMs;
    this.#ports.clock.schedule(pauseMs, () => {
      if (unit.state === 'preparing') this.#launch(unit, code);
    });
  }

  #heard(unit: Unit, word: Exclude<FromRunner, { readonly kind: 'ready' }>): void {
    switch (word.kind) {
      case 'started':
        unit.startedMs ??= this.#ports.clock.nowMs();
        return this.#ports.progressed(unit);
      case 'progress':
        note(unit, word);
        return this.#ports.progressed(unit);
      case 'said':
        return this.#ports.said(unit, word.level, word.text);
      case 'ended':
      default:
        return this.#ranToItsEnd(unit, word);
    }
  }

  #ranToItsEnd(unit: Unit, word: RunEnd): void {
    const { link } = unit;
    if (unit.state === 'behind') return this.#endedBefore(unit);
    note(unit, word);
    unit.startedMs ??= this.#ports.clock.nowMs();
    const { output, found, what, spent } = word;
    if (what === 'completed' && spent !== true && unit.cause === undefined && link !== undefined) {
      link.took(this.#ports.clock.nowMs() - unit.startedMs);
      const next = unit.behind.shift();
      if (next === undefined) this.#ports.pool.park(link);
      else this.#follow(unit, next);
      return this.#over(unit, 'completed', { output, found });
    }
    // Whatever it left behind (timers, open requests) ends with its process, and its core is free only then.
    unit.state = 'ending';
    const end = (): void => {
      if (what === 'completed') this.#over(unit, 'completed', { output, found });
      else if (unit.cause !== undefined) this.#stopped(unit, unit.cause);
      else if (what === 'cancelled') this.#over(unit, 'cancelled', { why: word.why });
      else this.#over(unit, 'failed', { code: userCode(word.code), why: word.why, output });
    };
    if (link === undefined || link.isGone) return end();
    link.whenGone(end);
    this.#ports.pool.drop(link);
  }

  /** Only what was told to stop may end before its turn. */
  #endedBefore(unit: Unit): void {
    if (unit.cause !== undefined) return this.#stopped(unit, unit.cause);
    if (unit.link !== undefined) this.#ports.pool.drop(unit.link);
    this.#died(unit, 'protocol: it ended what it had not begun');
  }

  #died(unit: Unit, reason: string): void {
    if (unit.cause !== undefined) return this.#stopped(unit, unit.cause);
    this.#ports.killed(unit, reason);
    this.#over(unit, 'failed', { code: 'RUNNER_KILLED', why: reason.slice(0, whyLengthMax) });
  }

  #stopped(unit: Unit, { as, why }: StopCause): void {
    if (as === 'timeout') this.#over(unit, 'failed', { code: 'WORKFLOW_TIMEOUT', why });
    else this.#over(unit, as, { why });
  }

  /** The first cause counts, and the shortest grace. */
  #end(unit: Unit, cause: StopCause): void {
    if (unit.state === 'over') return;
    unit.cause ??= cause;
    const { link } = unit;
    if (link === undefined) {
      this.#line.remove(unit);
      return this.#stopped(unit, unit.cause);
    }
    const isBehind = unit.state === 'behind';
    if (isBehind || unit.state === 'running') link.stop(unit.run, unit.cause.why);
    if (!isBehind) unit.state = 'ending';
    unit.ungrace?.();
    // The one before it in the same runner has done nothing wrong: that runner has time to answer.
    const ownGraceMs = isBehind ? Math.max(graceMs, cause.graceMs) : cause.graceMs;
    if (ownGraceMs <= 0) return this.#ports.pool.drop(link);
    const atMs = this.#ports.clock.nowMs() + ownGraceMs;
    unit.graceEndMs = Math.min(unit.graceEndMs, atMs);
    const waitMs = unit.graceEndMs - this.#ports.clock.nowMs();
    unit.ungrace = this.#ports.clock.schedule(Math.max(0, waitMs), () => this.#ports.pool.drop(link));
  }

  #leave(unit: Unit): void {
    for (const { behind } of this.#onCores) {
      const at = behind.indexOf(unit);
      if (at >= 0) behind.splice(at, 1);
    }
  }

  #over(unit: Unit, what: UnitReport['status'], more: Partial<UnitReport>): void {
    if (unit.state === 'over') return;
    if (unit.state === 'behind') this.#leave(unit);
    unit.state = 'over';
    unit.ungrace?.();
    this.#living.delete(unit);
    if (this.#living.size === 0) this.#timeouts.forget();
    if (this.#latest.get(unit.key) === unit) this.#latest.delete(unit.key);
    this.#giveCore(unit);
    this.#ports.ended(unit.end(this.#ports.clock.nowMs(), what, more));
    if (unit.whenOver.length > 0) for (const done of unit.whenOver.splice(0)) done();
    this.#next();
  }
}
