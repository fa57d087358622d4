/**
 * The pools callable from this node. A pool created through this node is callable as soon as create returns: its calls
 * wait until the table has it.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { Clock } from '../../base/ports.ts';
import type { AddressTable, KnownPool } from '../contract.ts';

export type CallablePoolsPorts = { readonly clock: Clock; readonly table: Pick<AddressTable, 'pool' | 'isConfirmed'> };

type Expected = { readonly major: number; readonly untilMs: number };

const expectedMax = 1_000;

export class CallablePools {
  readonly #ports: CallablePoolsPorts;
  readonly #patienceMs: number;
  /** Pools that the table does not have yet. Mostly none. */
  readonly #expected = new BoundedLru<string, Expected>(expectedMax);

  /** `patienceMs`: for so long a pool is expected; it may have been deleted before the table has ever heard of it. */
  constructor(ports: CallablePoolsPorts, patienceMs: number) {
    this.#ports = ports;
    this.#patienceMs = patienceMs;
  }

  /** Somebody is told that this one is there. Later pools have higher numbers. */
  expectPool(name: string, major: number): void {
    const { clock, table } = this.#ports;
    if ((table.pool(name)?.record.major ?? 0) < major)
      this.#expected.set(name, { major, untilMs: clock.nowMs() + this.#patienceMs });
  }

  get(name: string): KnownPool | undefined {
    const pool = this.#ports.table.pool(name);
    return pool?.record.state !== 'active' || this.isExpected(name) ? undefined : pool;
  }

  /** It is there by the word of this node, and the table does not have it yet. */
  isExpected(name: string): boolean {
    if (this.#expected.size === 0) return false;
    const { clock, table } = this.#ports;
    const expected = this.#expected.peek(name);
    if (expected === undefined) return false;
    const isHere = (table.pool(name)?.record.major ?? 0) >= expected.major;
    if (!isHere && clock.nowMs() < expected.untilMs) return true;
    this.#expected.delete(name);
    return false;
  }

  /** Why there is none. */
  refusal(name: string): { readonly code: 'UNKNOWN_POOL' | 'DEADLINE'; readonly message: string } {
    const shown = `"${name.slice(0, 63)}"`;
    if (this.isExpected(name))
      return { code: 'DEADLINE', message: `the address table of this node does not have the pool ${shown} yet` };
    const isGoing = this.#ports.table.pool(name) !== undefined;
    if (!isGoing && this.#ports.table.isConfirmed === false)
      return {
        code: 'DEADLINE',
        message: `this node has just started and does not know yet whether there is a pool ${shown}`,
      };
    return {
      code: 'UNKNOWN_POOL',
      message: isGoing ? `the pool ${shown} is being deleted` : `there is no pool ${shown}`,
    };
  }
}
