/**
 * Waits for a pool to turn up in the address table, which has no way to tell of pools. Bounded by a short time. One that
 * is being deleted does not count: it may be gone for long, and another one of its name may have been created.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { AddressTable, KnownPool } from '../contract.ts';

const lookMsMin = 10;
const lookMsMax = 250;

export class PoolSearch {
  readonly #ports: { readonly clock: Clock; readonly table: Pick<AddressTable, 'pool'> };
  readonly #name: string;
  readonly #untilMs: number;
  readonly #done: Done<KnownPool>;
  #lookMs = lookMsMin;
  #timer: Cancel;

  constructor(
    ports: { readonly clock: Clock; readonly table: Pick<AddressTable, 'pool'> },
    name: string,
    patienceMs: number,
    done: Done<KnownPool>,
  ) {
    this.#ports = ports;
    this.#name = name;
    this.#untilMs = ports.clock.nowMs() + patienceMs;
    this.#done = done;
    this.#timer = this.#later();
  }

  cancel(): void {
    if (this.#lookMs === Infinity) return;
    this.#timer();
    this.#end(() => this.#done(failure('CANCELLED')));
  }

  #later(): Cancel {
    const { clock } = this.#ports;
    const delayMs = Math.max(0, Math.min(this.#lookMs, this.#untilMs - clock.nowMs()));
    return clock.schedule(delayMs, () => this.#look());
  }

  #look(): void {
    const pool = this.#ports.table.pool(this.#name);
    if (pool?.record.state === 'active') return this.#end(() => this.#done(success(pool)));
    if (this.#ports.clock.nowMs() >= this.#untilMs) {
      const name = `"${this.#name.slice(0, 63)}"`;
      const reason = pool === undefined ? `there is no pool ${name}` : `the pool ${name} is being deleted`;
      return this.#end(() => this.#done(failure('UNKNOWN_POOL', reason)));
    }
    this.#lookMs = Math.min(lookMsMax, this.#lookMs * 2);
    this.#timer = this.#later();
  }

  #end(tell: () => void): void {
    this.#lookMs = Infinity;
    tell();
  }
}
