/**
 * The pools that calls of this node can reach. A pool created through this node is callable as soon as create returns:
 * its calls wait until the address table has it. A pool that is being deleted does not count.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Done, failure, success } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { AddressTable, KnownPool } from '../contract.ts';

export type CallablePoolsPorts = { readonly clock: Clock; readonly table: Pick<AddressTable, 'pool' | 'isConfirmed'> };

type Expected = { readonly major: number; readonly untilMs: number };

const expectedMax = 1_000;

export class CallablePools {
  readonly #ports: CallablePoolsPorts;
  readonly #expectForMs: number;
  /** Pools that exist and that the table does not have yet; usually none. */
  readonly #expected = new BoundedLru<string, Expected>(expectedMax);

  /** `expectForMs` bounds the wait: a pool may be deleted before the table ever has it. */
  constructor(ports: CallablePoolsPorts, expectForMs: number) {
    this.#ports = ports;
    this.#expectForMs = expectForMs;
  }

  /** The creation of this pool has been confirmed to a client. Later pools have higher numbers. */
  expectPool(name: string, major: number): void {
    const { clock, table } = this.#ports;
    if ((table.pool(name)?.record.major ?? 0) < major)
      this.#expected.set(name, { major, untilMs: clock.nowMs() + this.#expectForMs });
  }

  get(name: string): KnownPool | undefined {
    const pool = this.#ports.table.pool(name);
    return pool?.record.state !== 'active' || this.isExpected(name) ? undefined : pool;
  }

  /** This node has confirmed its creation, and the table does not have it yet. */
  isExpected(name: string): boolean {
    if (this.#expected.size === 0) return false;
    const { clock, table } = this.#ports;
    const expected = this.#expected.peek(name);
    if (expected === undefined) return false;
    const isInTable = (table.pool(name)?.record.major ?? 0) >= expected.major;
    if (!isInTable && clock.nowMs() < expected.untilMs) return true;
    this.#expected.delete(name);
    return false;
  }

  /** Why the pool is not callable. */
  refusal(name: string): { readonly code: 'UNKNOWN_POOL' | 'DEADLINE'; readonly message: string } {
    const quoted = `"${name.slice(0, 63)}"`;
    if (this.isExpected(name))
      return { code: 'DEADLINE', message: `the address table of this node does not have pool ${quoted} yet` };
    const isBeingDeleted = this.#ports.table.pool(name) !== undefined;
    if (!isBeingDeleted && this.#ports.table.isConfirmed === false)
      return {
        code: 'DEADLINE',
        message: `this node has just started and cannot know yet whether there is a pool ${quoted}`,
      };
    return {
      code: 'UNKNOWN_POOL',
      message: isBeingDeleted ? `pool ${quoted} is being deleted` : `there is no pool ${quoted}`,
    };
  }
}

const pollMsMin = 10;
const pollMsMax = 250;

/** Polls until the pool is callable or the time is up: the address table has no watch for pools. */
export class CallablePoolWait {
  readonly #clock: Clock;
  readonly #pools: CallablePools;
  readonly #name: string;
  readonly #untilMs: number;
  readonly #done: Done<KnownPool>;
  #pollMs = pollMsMin;
  #timer: Cancel;

  constructor(
    { clock, pools }: { readonly clock: Clock; readonly pools: CallablePools },
    name: string,
    timeoutMs: number,
    done: Done<KnownPool>,
  ) {
    this.#clock = clock;
    this.#pools = pools;
    this.#name = name;
    this.#untilMs = clock.nowMs() + timeoutMs;
    this.#done = done;
    this.#timer = this.#schedulePoll();
  }

  cancel(): void {
    if (this.#pollMs === Infinity) return;
    this.#timer();
    this.#complete(() => this.#done(failure('CANCELLED', undefined, 'no')));
  }

  #schedulePoll(): Cancel {
    const delayMs = Math.max(0, Math.min(this.#pollMs, this.#untilMs - this.#clock.nowMs()));
    return this.#clock.schedule(delayMs, () => this.#poll());
  }

  #poll(): void {
    const pool = this.#pools.get(this.#name);
    if (pool !== undefined) return this.#complete(() => this.#done(success(pool)));
    if (this.#clock.nowMs() >= this.#untilMs) {
      const { code, message } = this.#pools.refusal(this.#name);
      return this.#complete(() => this.#done(failure(code, message, 'no')));
    }
    this.#pollMs = Math.min(pollMsMax, this.#pollMs * 2);
    this.#timer = this.#schedulePoll();
  }

  #complete(report: () => void): void {
    this.#pollMs = Infinity;
    report();
  }
}
