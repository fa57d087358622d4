/**
 * Runs due timers as turns: method and removal in one commit, so each runs once. A throwing timer is retried with
 * backoff, then dropped and logged.
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

/** More timers than these wait until others have had their turn. */
const busyMax = 100;

type Busy = { readonly timer: ContainerTimer; attempts: number; cancelRetry: Cancel | undefined };

export class TimerRunner {
  readonly #ports: TimerRunnerPorts;
  /** Have a turn, or wait to be tried again. */
  readonly #busy = new Map<string, Busy>();
  #isRunning = false;
  #cancel: Cancel | undefined;

  constructor(ports: TimerRunnerPorts) {
    this.#ports = ports;
  }

  start(): void {
    this.#isRunning = true;
    this.arm();
  }

  /** No turn begins any more; those that have begun end by themselves. */
  stop(): void {
    this.#isRunning = false;
    this.#cancel?.();
    this.#cancel = undefined;
    for (const busy of this.#busy.values()) busy.cancelRetry?.();
    this.#busy.clear();
  }

  /** Looks for the next timer. */
  arm(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (!this.#isRunning || this.#busy.size >= busyMax) return;
    const next = this.#next();
    if (next === undefined) return;
    const { clock, limits } = this.#ports;
    const delayMs = Math.min(limits.timerSleepMsMax, Math.max(0, next.dueWallMs - clock.wallMs()));
    this.#cancel = clock.schedule(delayMs, () => this.#wake());
  }

  #next(): ContainerTimer | undefined {
    let next: ContainerTimer | undefined;
    this.#ports.timers.visit((timer) => {
      if (this.#busy.get(timer.name)?.timer === timer) return true;
      next = timer;
      return false;
    });
    return next;
  }

  #wake(): void {
    this.#cancel = undefined;
    const { clock, canServe } = this.#ports;
    // When the lease returns, it is armed again.
    if (!canServe()) return;
    const nowMs = clock.wallMs();
    for (let next = this.#next(); next !== undefined && this.#busy.size < busyMax; next = this.#next()) {
      if (next.dueWallMs > nowMs) break;
      this.#busy.get(next.name)?.cancelRetry?.();
      const busy: Busy = { timer: next, attempts: 0, cancelRetry: undefined };
      this.#busy.set(next.name, busy);
      this.#fire(busy);
      if (!this.#isRunning) return;
    }
    this.arm();
  }

  #fire(busy: Busy): void {
    const { timer } = busy;
    const { methods, limits, timers, run } = this.#ports;
    busy.attempts += 1;
    run({
      name: `timer ${timer.name}`,
      timeMsMax: limits.timerCallMsMax,
      run: (ctx, changes) => {
        // It may have been cancelled or set anew since it was due.
        if (timers.get(timer.name) !== timer) return undefined;
        changes.timers.cancel(timer.name);
        const method = methods.get(timer.method);
        if (method === undefined) throw new TypeError(`there is no method ${timer.method}`);
        return method.run(ctx, ...decodeArgs(timer.args));
      },
      done: (outcome) => this.#ended(busy, outcome),
    });
  }

  #ended(busy: Busy, outcome: Outcome<void>): void {
    if (!this.#isRunning || this.#busy.get(busy.timer.name) !== busy) return;
    if (outcome.ok) {
      this.#busy.delete(busy.timer.name);
      this.arm();
      return;
    }
    const { clock, limits, log, contextInfo } = this.#ports;
    if (outcome.error.code === 'NO_QUORUM') {
      busy.attempts -= 1;
      busy.cancelRetry = clock.schedule(limits.timerRetryMs, () => this.#fire(busy));
      return;
    }
    const { name, method } = busy.timer;
    const fields = {
      pool: contextInfo.pool.name,
      container: contextInfo.container,
      timer: name,
      method,
      error: outcome.error.message,
    };
    const isLast = busy.attempts >= limits.timerAttemptsMax;
    log(isLast ? 'error' : 'warn', isLast ? 'a timer failed too often and is dropped' : 'a timer failed', fields);
    const delayMs = limits.timerRetryMs * 4 ** (busy.attempts - 1);
    if (isLast) this.#drop(busy);
    else busy.cancelRetry = clock.schedule(delayMs, () => this.#fire(busy));
  }

  #drop(busy: Busy): void {
    const { timers, limits, run } = this.#ports;
    const { timer } = busy;
    run({
      name: `timer ${timer.name}`,
      timeMsMax: limits.timerCallMsMax,
      run: (_ctx, changes) => {
        if (timers.get(timer.name) === timer) changes.timers.cancel(timer.name);
      },
      done: () => {
        this.#busy.delete(timer.name);
        this.arm();
      },
    });
  }
}
