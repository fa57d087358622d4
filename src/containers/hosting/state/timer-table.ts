/** Timers as rows of the container's state, so that they commit, move and recover with it. Runs none. */
import { RemusterError } from '../../../base/errors.ts';
import type { StoreWrite } from '../../../base/ports.ts';
import { utf8Length } from '../../../base/registry-validation.ts';
import { decodeValue, encodeDetachedValue } from '../../../messages/codec/value.ts';
import { OrderedMap } from '../../../base/collections/ordered-map.ts';
import type { Timers } from '../../module.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import { rowBytes, timerRow } from './state-rows.ts';
import { viewEndedError } from './state-view.ts';

export type ContainerTimer = {
  readonly name: string;
  readonly dueWallMs: number;
  readonly method: string;
  /** An encoded list. */
  readonly args: Uint8Array;
  /** The encoded row on disk. */
  readonly row: Uint8Array;
};

export const timerNameBytesMax = 200;
/** About 300 years: beyond any plausible due time, and exact in a double. */
const afterMsMax = 10_000_000_000_000;

export class TimerTable {
  readonly #byName = new Map<string, ContainerTimer>();
  /** In order of due time. */
  readonly #byDue = new OrderedMap<ContainerTimer>();

  get size(): number {
    return this.#byName.size;
  }

  get(name: string): ContainerTimer | undefined {
    return this.#byName.get(name);
  }

  set(timer: ContainerTimer): void {
    this.delete(timer.name);
    this.#byName.set(timer.name, timer);
    this.#byDue.set(dueKey(timer), timer);
  }

  delete(name: string): void {
    const timer = this.#byName.get(name);
    if (timer === undefined) return;
    this.#byName.delete(name);
    this.#byDue.delete(dueKey(timer));
  }

  /** In order of due time, until the visitor returns false. */
  visit(visitor: (timer: ContainerTimer) => boolean): void {
    this.#byDue.visit('', '~', visitor);
  }

  /** Throws MALFORMED for a row that `TimerChanges.set` has not encoded. */
  load(name: string, row: Uint8Array): void {
    const read = decodeValue(row);
    const [dueWallMs, method, args]: readonly unknown[] = Array.isArray(read) ? read : [];
    if (typeof dueWallMs !== 'number' || typeof method !== 'string' || !(args instanceof Uint8Array)) {
      throw new RemusterError('MALFORMED', `the row of timer ${name} cannot be decoded`);
    }
    this.set({ name, dueWallMs, method, args, row });
  }
}

/** The timer changes of one call; they take effect with `apply`. */
export class TimerChanges implements Timers {
  readonly #table: TimerTable;
  readonly #limits: HostingLimits;
  readonly #nowWallMs: () => number;
  #changes: Map<string, ContainerTimer | undefined> | undefined;
  #added = 0;
  #isOpen = true;

  constructor(table: TimerTable, limits: HostingLimits, nowWallMs: () => number) {
    this.#table = table;
    this.#limits = limits;
    this.#nowWallMs = nowWallMs;
  }

  set(name: string, afterMs: number, method: string, ...args: readonly unknown[]): void {
    this.#checkOpen();
    checkName(name);
    if (typeof method !== 'string')
      throw new RemusterError('BAD_ARGUMENT', `the method of a timer is a ${typeof method}: give its name`);
    if (typeof afterMs !== 'number' || Number.isNaN(afterMs) || afterMs > afterMsMax) {
      throw new RemusterError(
        'BAD_ARGUMENT',
        `the delay of a timer is ${afterMs}: give 0 to ${afterMsMax} milliseconds`,
      );
    }
    const { timersMax, timerArgsBytesMax } = this.#limits;
    const isNew = this.#find(name) === undefined;
    if (isNew && this.#table.size + this.#added >= timersMax) {
      throw new RemusterError('CAPACITY', `the container has ${timersMax} timers, its maximum`);
    }
    const encodedArgs = encodeDetachedValue(args, timerArgsBytesMax);
    const dueWallMs = Math.ceil(this.#nowWallMs() + Math.max(0, afterMs));
    const row = encodeDetachedValue([dueWallMs, method, encodedArgs]);
    this.#change(name, { name, dueWallMs, method, args: encodedArgs, row });
    if (isNew) this.#added += 1;
  }

  cancel(name: string): void {
    this.#checkOpen();
    if (this.#find(name) === undefined) return;
    this.#change(name, undefined);
    this.#added -= 1;
  }

  end(): void {
    this.#isOpen = false;
  }

  get isEmpty(): boolean {
    return this.#changes === undefined;
  }

  apply(): void {
    if (this.#changes === undefined) return;
    for (const [name, timer] of this.#changes) {
      if (timer === undefined) this.#table.delete(name);
      else this.#table.set(timer);
    }
  }

  collectRows(rows: StoreWrite[]): void {
    if (this.#changes === undefined) return;
    for (const [name, timer] of this.#changes) rows.push({ key: timerRow(name), value: timer?.row ?? null });
  }

  /** Bytes of the changes in a commit. */
  get writtenBytes(): number {
    let bytes = 0;
    if (this.#changes === undefined) return bytes;
    for (const [name, timer] of this.#changes) bytes += rowBytes(name, timer?.row.length ?? 0);
    return bytes;
  }

  #find(name: string): ContainerTimer | undefined {
    return this.#changes?.has(name) === true ? this.#changes.get(name) : this.#table.get(name);
  }

  #change(name: string, timer: ContainerTimer | undefined): void {
    this.#changes ??= new Map();
    this.#changes.set(name, timer);
  }

  #checkOpen(): void {
    if (!this.#isOpen) throw viewEndedError();
  }
}

/** The timers of readonly methods. */
export const noTimers: Timers = {
  set: () => refuseTimers(),
  cancel: () => refuseTimers(),
};

function refuseTimers(): never {
  throw new TypeError('a readonly method cannot set or cancel timers: remove `readonly` from the method');
}

function checkName(name: string): void {
  if (typeof name !== 'string' || name === '' || !name.isWellFormed() || utf8Length(name) > timerNameBytesMax) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `the name of a timer has 1 to ${timerNameBytesMax} bytes of well-formed text`,
    );
  }
}

function dueKey({ dueWallMs, name }: ContainerTimer): string {
  return `${String(dueWallMs).padStart(16, '0')}/${name}`;
}
