/**
 * Feeds one input at a time to a machine and performs its effects in order. An effect behind a `persist` waits until
 * that write is durable.
 *
 *   input -> machine.step -> [schedule* | unschedule*] at once
 *                            [persist | other]* -> queue -> store.write -> perform
 *
 * Inputs are stepped while a write is under way; all persists that queue up meanwhile go into the next write together
 * (group commit). An effect that is marked `ahead` depends on nothing that is being written and does not wait.
 *
 * When the store fails, the machine is told, everything behind the failed write is held, and the write is tried again:
 * a full disk stops answers, it does not lose or reorder them. A queue that exceeds its bound halts the loop for good,
 * which the owner treats as a crash.
 *
 * The loop never looks into an input or an effect beyond `kind`, and knows nothing of what the machine is about.
 */
import { unreachable } from '../assert.ts';
import { BoundedQueue } from '../collections/bounded-queue.ts';
import { RemusterError } from '../errors.ts';
import type { Cancel, Clock, Store, StoreWrite } from '../ports.ts';

export type Persist = { readonly kind: 'persist'; readonly writes: readonly StoreWrite[] };
export type Schedule<Timer> = {
  readonly kind: 'schedule';
  readonly atMs: number;
  readonly timer: Timer;
  /** For `unschedule`. */
  readonly key?: string;
};
/** The timer with this key is not needed any more. It only saves a wake-up: one that expires nevertheless must do no harm. */
export type CancelTimer = { readonly kind: 'unschedule'; readonly key: string };
export type TimerExpired<Timer> = { readonly kind: 'expired'; readonly timer: Timer };
export type PersistFailed = { readonly kind: 'persistFailed'; readonly error: RemusterError };

export type Machine<Input, Effect> = { step(nowMs: number, input: Input): readonly Effect[] };

/** `ahead`: true of what would be just as right if every write under way failed, such as the heartbeat of a leader. */
type Act = { readonly kind: string; readonly immediate?: boolean };

export type LoopOptions<Effect, Timer> = {
  readonly clock: Clock;
  readonly store: Pick<Store, 'write'>;
  readonly perform: (effect: Exclude<Effect, Persist | Schedule<Timer> | CancelTimer>) => void;
  /** The loop is over: the machine threw, or more effects wait for the disk than `heldMax`. */
  readonly onHalt: (error: unknown) => void;
  readonly queuedEffectsMax?: number;
  readonly retryMs?: number;
};

/** For a machine that asks for nothing to be durable. */
export const noStore: Pick<Store, 'write'> = {
  write: (writes) => unreachable(writes as never),
};

export class Loop<Input, Effect extends Act, Timer> {
  readonly #machine: Machine<
    Input | TimerExpired<Timer> | PersistFailed,
    Effect | Persist | Schedule<Timer> | CancelTimer
  >;
  readonly #options: LoopOptions<Effect, Timer>;
  readonly #queue: BoundedQueue<Effect | Persist>;
  readonly #retryMs: number;
  /** Of the timers with a key that have not expired. */
  readonly #cancels = new Map<string, Cancel>();
  /** How many effects at the head of the queue are covered by the last successful write. */
  #durable = 0;
  /** True while effects are performed or a write is under way: who feeds the loop meanwhile only queues. */
  #busy = false;
  /** Effects that wait for nothing but the end of the one that is being performed. */
  #ahead: Act[] = [];
  #isPerforming = false;
  #open = true;

  constructor(
    machine: Machine<Input | TimerExpired<Timer> | PersistFailed, Effect | Persist | Schedule<Timer> | CancelTimer>,
    options: LoopOptions<Effect, Timer>,
  ) {
    this.#machine = machine;
    this.#options = options;
    this.#queue = new BoundedQueue(options.queuedEffectsMax ?? 100_000);
    this.#retryMs = options.retryMs ?? 250;
  }

  feed(input: Input | TimerExpired<Timer> | PersistFailed): void {
    if (!this.#open) return;
    try {
      const effects = this.#machine.step(this.#options.clock.nowMs(), input);
      for (const effect of effects) this.#accept(effect);
      // Only now, because what they cause may feed this loop again, and the order of the others must stay.
      for (const effect of effects) if (isAhead(effect)) this.#ahead.push(effect);
      // An effect is performed whole before the next one, whoever is fed meanwhile.
      if (this.#isPerforming) return;
      this.#performAhead();
      if (!this.#busy) this.#drain();
    } catch (error) {
      this.#halt(error);
    }
  }

  /** Nothing is stepped or performed from now on; a write under way ends by itself. */
  stop(): void {
    this.#open = false;
    this.#cancels.clear();
    this.#queue.clear();
    this.#ahead = [];
  }

  #accept(effect: Effect | Persist | Schedule<Timer> | CancelTimer): void {
    if (isSchedule<Timer>(effect)) this.#schedule(effect);
    else if (isUnschedule(effect)) {
      this.#cancels.get(effect.key)?.();
      this.#cancels.delete(effect.key);
    } else if (!isAhead(effect) && !this.#queue.push(effect)) {
      throw new RemusterError('CAPACITY', `more than ${this.#queue.max} effects wait for the disk`);
    }
  }

  #schedule({ atMs, timer, key }: Schedule<Timer>): void {
    const { clock } = this.#options;
    const cancel = clock.schedule(Math.max(0, atMs - clock.nowMs()), () => {
      if (key !== undefined && this.#cancels.get(key) === cancel) this.#cancels.delete(key);
      this.feed({ kind: 'expired', timer });
    });
    if (key !== undefined) this.#cancels.set(key, cancel);
  }

  /** Also those that are caused by performing one. */
  #performAhead(): void {
    for (let effect = this.#ahead.shift(); effect !== undefined; effect = this.#ahead.shift()) this.#perform(effect);
  }

  /** Performs from the head of the queue up to the first persist that is not durable yet, then starts its write. */
  #drain(): void {
    this.#busy = true;
    for (let effect = this.#queue.peek(); effect !== undefined; effect = this.#queue.peek()) {
      if (isPersist(effect) && this.#durable === 0) {
        this.#write();
        return;
      }
      this.#queue.shift();
      this.#durable = Math.max(0, this.#durable - 1);
      if (!isPersist(effect)) this.#perform(effect);
      this.#performAhead();
    }
    this.#busy = false;
  }

  #perform(effect: Act): void {
    this.#isPerforming = true;
    try {
      this.#options.perform(effect as Exclude<Effect, Persist | Schedule<Timer> | CancelTimer>);
    } finally {
      this.#isPerforming = false;
    }
  }

  #write(): void {
    const covered = this.#queue.length;
    const writes = [...this.#queue].flatMap((effect) => (isPersist(effect) ? effect.writes : []));
    this.#options.store.write(writes, (outcome) => {
      if (!this.#open) return;
      if (outcome.ok) this.#written(covered);
      else this.#failed(outcome.error);
    });
  }

  #written(covered: number): void {
    this.#durable = covered;
    try {
      this.#drain();
    } catch (error) {
      this.#halt(error);
    }
  }

  #failed(error: RemusterError): void {
    this.#options.clock.schedule(this.#retryMs, () => {
      if (this.#open) this.#write();
    });
    this.feed({ kind: 'persistFailed', error });
  }

  #halt(error: unknown): void {
    if (!this.#open) return;
    this.stop();
    this.#options.onHalt(error);
  }
}

function isAhead(effect: Act): boolean {
  return effect.immediate === true;
}

function isPersist(effect: Act): effect is Persist {
  return effect.kind === 'persist';
}

function isUnschedule(effect: Act): effect is CancelTimer {
  return effect.kind === 'unschedule';
}

function isSchedule<Timer>(effect: Act): effect is Schedule<Timer> {
  return effect.kind === 'schedule';
}
