/**
 * Feeds one input at a time to a machine and performs its effects in order. An effect behind a `persist` waits until
 * that write is durable.
 *
 *   input -> machine.step -> [schedule* | cancelTimer*] at once
 *                            [persist | other]* -> queue -> store.write -> perform
 *
 * Inputs are stepped while a write is under way; all persists that queue up meanwhile go into the next write (group
 * commit). An `immediate` effect depends on no write under way and does not wait.
 *
 * When a write fails, the machine gets `persistFailed`, all effects behind the write stay queued, and the write is
 * retried: a full disk delays replies, and never loses or reorders them. A queue that exceeds its bound halts the loop
 * for good; the owner treats that as a crash.
 *
 * The loop never looks into an input or an effect beyond `kind`.
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
  /** For `cancelTimer`. */
  readonly key?: string;
};
/** Saves a wake-up only: a machine must ignore a timer that expires nevertheless. */
export type CancelTimer = { readonly kind: 'cancelTimer'; readonly key: string };
export type TimerExpired<Timer> = { readonly kind: 'expired'; readonly timer: Timer };
export type PersistFailed = { readonly kind: 'persistFailed'; readonly error: RemusterError };

export type Machine<Input, Effect> = { step(nowMs: number, input: Input): readonly Effect[] };

/** `immediate`: correct even if every write under way fails, such as a heartbeat of the leader. */
type EffectLike = { readonly kind: string; readonly immediate?: boolean };

export type LoopOptions<Effect, Timer> = {
  readonly clock: Clock;
  readonly store: Pick<Store, 'write'>;
  readonly perform: (effect: Exclude<Effect, Persist | Schedule<Timer> | CancelTimer>) => void;
  /** The loop ended: the machine threw, or more effects wait for the disk than `queuedEffectsMax`. */
  readonly onHalt: (error: unknown) => void;
  readonly queuedEffectsMax?: number;
  readonly retryMs?: number;
};

/** For a machine without persists. */
export const noStore: Pick<Store, 'write'> = {
  write: (writes) => unreachable(writes as never),
};

export class Loop<Input, Effect extends EffectLike, Timer> {
  readonly #machine: Machine<
    Input | TimerExpired<Timer> | PersistFailed,
    Effect | Persist | Schedule<Timer> | CancelTimer
  >;
  readonly #options: LoopOptions<Effect, Timer>;
  readonly #queue: BoundedQueue<Effect | Persist>;
  readonly #retryMs: number;
  /** Of the pending timers that have a key. */
  readonly #cancels = new Map<string, Cancel>();
  /** How many effects at the head of the queue are covered by the last successful write. */
  #durable = 0;
  /** True while effects are performed or a write is under way; effects of further inputs only queue. */
  #busy = false;
  /** Effects that wait only for the end of the one being performed. */
  #immediate: EffectLike[] = [];
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
      // After the others are queued: performing one may feed this loop again, and the queue must keep its order.
      for (const effect of effects) if (isImmediate(effect)) this.#immediate.push(effect);
      // An effect is performed completely before the next one, even if it feeds this loop.
      if (this.#isPerforming) return;
      this.#performImmediate();
      if (!this.#busy) this.#drain();
    } catch (error) {
      this.#halt(error);
    }
  }

  /** Steps and performs nothing afterwards; a write under way ends by itself. */
  stop(): void {
    this.#open = false;
    this.#cancels.clear();
    this.#queue.clear();
    this.#immediate = [];
  }

  #accept(effect: Effect | Persist | Schedule<Timer> | CancelTimer): void {
    if (isSchedule<Timer>(effect)) this.#schedule(effect);
    else if (isCancelTimer(effect)) {
      this.#cancels.get(effect.key)?.();
      this.#cancels.delete(effect.key);
    } else if (!isImmediate(effect) && !this.#queue.push(effect)) {
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

  /** Also those that the performed effects cause. */
  #performImmediate(): void {
    for (let effect = this.#immediate.shift(); effect !== undefined; effect = this.#immediate.shift())
      this.#perform(effect);
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
      this.#performImmediate();
    }
    this.#busy = false;
  }

  #perform(effect: EffectLike): void {
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

function isImmediate(effect: EffectLike): boolean {
  return effect.immediate === true;
}

function isPersist(effect: EffectLike): effect is Persist {
  return effect.kind === 'persist';
}

function isCancelTimer(effect: EffectLike): effect is CancelTimer {
  return effect.kind === 'cancelTimer';
}

function isSchedule<Timer>(effect: EffectLike): effect is Schedule<Timer> {
  return effect.kind === 'schedule';
}
