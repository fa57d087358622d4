/**
 * Waits for a pool that can be called to turn up: the address table has no way to tell of pools. Bounded by a short time.
 * One that is being deleted does not count: it may be gone for long, and another one of its name may have been created.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { KnownPool } from '../contract.ts';
import type { CallablePools } from './callable-pools.ts';

const lookMsMin = 10;
const lookMsMax = 250;

export class CallablePoolWait {
  readonly #clock: Clock;
  readonly #pools: CallablePools;
  readonly #name: string;
  readonly #untilMs: number;
  readonly #done: Done<KnownPool>;
  #lookMs = lookMsMin;
  #timer: Cancel;

  constructor(
    { clock, pools }: { readonly clock: Clock; readonly pools: CallablePools },
    name: string,
    patienceMs: number,
    done: Done<KnownPool>,
  ) {
    this.#clock = clock;
    this.#pools = pools;
    this.#name = name;
    this.#untilMs = clock.nowMs() + patienceMs;
    this.#done = done;
    this.#timer = this.#later();
  }

  cancel(): void {
    if (this.#lookMs === Infinity) return;
    this.#timer();
    this.#end(() => this.#done(failure('CANCELLED', undefined, 'no')));
  }

  #later(): Cancel {
    const delayMs = Math.max(0, Math.min(this.#lookMs, this.#untilMs - this.#clock.nowMs()));
    return this.#clock.schedule(delayMs, () => this.#look());
  }

  #look(): void {
    const pool = this.#pools.get(this.#name);
    if (pool !== undefined) return this.#end(() => this.#done(success(pool)));
    if (this.#clock.nowMs() >= this.#untilMs) {
      const { code, message } = this.#pools.refusal(this.#name);
      return this.#end(() => this.#done(failure(code, message, 'no')));
    }
    this.#lookMs = Math.min(lookMsMax, this.#lookMs * 2);
    this.#timer = this.#later();
  }

  #end(tell: () => void): void {
    this.#lookMs = Infinity;
    tell();
  }
}
