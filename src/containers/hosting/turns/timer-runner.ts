/**
 * Runs due timers as turns: the effect of the method and the removal of the timer are one commit, so each timer takes
 * effect once. A timer that throws is retried with backoff, then dropped and logged.
 */
import type { Outcome } from '../../../base/errors.ts';
import type { Cancel } from '../../../base/ports.ts';
import { decodeArgs, type ModuleMethod } from './module-methods.ts';
import type { ContainerTimer, TimerTable } from '../state/timer-table.ts';
import type { InternalTurn, TurnPorts } from './turn.ts';

export type TimerRunnerPorts = Pick<TurnPorts, 'clock' | 'limits' | 'log' | 'contextInfo' | 'canServe'> & {
  readonly timers: TimerTable;
  readonly methods: ReadonlyMap<string, ModuleMethod>;
  readonly run: (turn: InternalTurn) => void;
};

/** Timers that have a turn or wait for a retry; further ones wait. */
const activeMax = 100;

type ActiveTimer = { readonly timer: ContainerTimer; attempts: number; cancelRetry: Cancel | undefined };

export class TimerRunner {
  readonly #ports: TimerRunnerPorts;
  /** Timers that have a turn or wait for a retry. */
  readonly #active = new Map<string, ActiveTimer>();
  #isRunning = false;
  #cancel: Cancel | undefined;

  constructor(ports: TimerRunnerPorts) {
    this.#ports = ports;
  }

  start(): void {
    this.#isRunning = true;
    this.arm();
  }

  /** Starts no more turns; running ones end by themselves. */
  stop(): void {
    this.#isRunning = false;
    this.#cancel?.();
    this.#cancel = undefined;
    for (const active of this.#active.values()) active.cancelRetry?.();
    this.#active.clear();
  }

  /** Schedules the next due timer. */
  arm(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (!this.#isRunning || this.#active.size >= activeMax) return;
    const next = this.#next();
    if (next === undefined) return;
    const { clock, limits } = this.#ports;
    const delayMs = Math.min(limits.timerSleepMsMax, Math.max(0, next.dueWallMs - clock.wallMs()));
    this.#cancel = clock.schedule(delayMs, () => this.#onTimer());
  }

  #next(): ContainerTimer | undefined {
    let next: ContainerTimer | undefined;
    this.#ports.timers.visit((timer) => {
      if (this.#active.get(timer.name)?.timer === timer) return true;
      next = timer;
      return false;
    });
    return next;
  }

  #onTimer(): void {
    this.#cancel = undefined;
    const { clock, canServe } = this.#ports;
    // `arm` is called again when the lease returns.
    if (!canServe()) return;
    const nowMs = clock.wallMs();
    for (let next = this.#next(); next !== undefined && this.#active.size < activeMax; next = this.#next()) {
      if (next.dueWallMs > nowMs) break;
      this.#active.get(next.name)?.cancelRetry?.();
      const active: ActiveTimer = { timer: next, attempts: 0, cancelRetry: undefined };
      this.#active.set(next.name, active);
      this.#fire(active);
      if (!this.#isRunning) return;
    }
    this.arm();
  }

  #fire(active: ActiveTimer): void {
    const { timer } = active;
    const { methods, limits, timers, run } = this.#ports;
    active.attempts += 1;
    run({
      name: `timer ${timer.name}`,
      timeMsMax: limits.timerCallMsMax,
      run: (ctx, changes) => {
        // The timer may have been cancelled or set again since it was due.
        if (timers.get(timer.name) !== timer) return undefined;
        changes.timers.cancel(timer.name);
        const method = methods.get(timer.method);
        if (method === undefined) throw new TypeError(`there is no method ${timer.method}`);
        return method.run(ctx, ...decodeArgs(timer.args));
      },
      done: (outcome) => this.#onTurnEnded(active, outcome),
    });
  }

  #onTurnEnded(active: ActiveTimer, outcome: Outcome<void>): void {
    if (!this.#isRunning || this.#active.get(active.timer.name) !== active) return;
    if (outcome.ok) {
      this.#active.delete(active.timer.name);
      this.arm();
      return;
    }
    const { clock, limits, log, contextInfo } = this.#ports;
    if (outcome.error.code === 'NO_QUORUM') {
      active.attempts -= 1;
      active.cancelRetry = clock.schedule(limits.timerRetryMs, () => this.#fire(active));
      return;
    }
    const { name, method } = active.timer;
    const fields = {
      pool: contextInfo.pool.name,
      container: contextInfo.container,
      timer: name,
      method,
      error: outcome.error.message,
    };
    const isLast = active.attempts >= limits.timerAttemptsMax;
    log(isLast ? 'error' : 'warn', isLast ? 'a timer failed repeatedly and is dropped' : 'a timer failed', fields);
    const delayMs = limits.timerRetryMs * 4 ** (active.attempts - 1);
    if (isLast) this.#drop(active);
    else active.cancelRetry = clock.schedule(delayMs, () => this.#fire(active));
  }

  #drop(active: ActiveTimer): void {
    const { timers, limits, run } = this.#ports;
    const { timer } = active;
    run({
      name: `timer ${timer.name}`,
      timeMsMax: limits.timerCallMsMax,
      run: (_ctx, changes) => {
        if (timers.get(timer.name) === timer) changes.timers.cancel(timer.name);
      },
      done: () => {
        this.#active.delete(timer.name);
        this.arm();
      },
    });
  }
}
