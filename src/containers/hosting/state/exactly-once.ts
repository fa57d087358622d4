/**
 * Remembers call ids and results in the state of the container, so that a retried call gets its first result. Bounded:
 * a call whose result was evicted is refused, never run again.
 *
 * Callers report the lowest call that still waits (`lowestPending`); entries below it are dropped, and a call below it
 * is refused. Beyond the bounds the oldest results are evicted and only the fact that the calls ran stays. A session
 * whose calls cannot be retried any more is dropped when its place is needed.
 */
import { parseErrorCode, parseStateChanged, RemusterError } from '../../../base/errors.ts';
import type { CallId } from '../../../base/ids.ts';
import type { StoreWrite } from '../../../base/ports.ts';
import { decodeValue, encodeValue } from '../../../messages/codec/value.ts';
import { type DedupResult, DedupTable } from './dedup-table.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import { DedupSlots } from './dedup-slots.ts';
import { readDedupRow, callerKeyOf } from './state-rows.ts';

type Caller = Pick<CallId, 'session' | 'generation'>;

type Session = {
  readonly caller: string;
  readonly generation: number;
  readonly slots: DedupSlots;
  readonly table: DedupTable;
  /** Calls below this counter have ended for their caller. */
  floor: number;
  /** After this no call of the session is retried. */
  keepUntilMs: number;
};

/** Sessions dropped at once, and rows changed by it in one commit, which must stay small. */
const sessionsEvictedMax = 64;
const rowsMax = 200;
/** While more rows than this wait for deletion, sessions are dropped one by one. */
const droppedMax = 10_000;
const resultEvicted = 'it has run, and its result is no longer remembered';

export class ExactlyOnce {
  readonly #limits: HostingLimits;
  readonly #sessions = new Map<string, Session>();
  /** The session of the last call: calls of one session often come together. */
  #recent: Session | undefined;
  /** Rows to delete with the next commits. */
  readonly #dropped = new Set<string>();
  #bytes = 0;

  constructor(limits: HostingLimits) {
    this.#limits = limits;
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  /** True if another session has written here. */
  hasOtherCallersThan(session: string): boolean {
    return this.#sessions.size > (this.#sessions.has(session) ? 1 : 0);
  }

  /** Bytes of all remembered results. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Undefined: the call has not run, and may. Otherwise its result, or the error of a call that cannot run again. */
  find(id: CallId, nowMs: number): DedupResult | undefined {
    const session = this.#sessionOf(id);
    if (session === undefined) return this.#hasRoom(nowMs) ? undefined : refusedBy('CAPACITY', 'too many callers');
    if (id.counter < session.floor) return refusedBy('PRECONDITION', 'its caller has reported it as ended');
    const entry = session.table.find(id.counter);
    return entry === undefined ? undefined : (entry.result ?? refusedBy('PRECONDITION'));
  }

  /** Records the result, and adds the rows that make it durable. The caller may retry for `remainingMs`. */
  record(
    call: { readonly id: CallId; readonly lowestPending: number; readonly remainingMs: number },
    result: DedupResult,
    nowMs: number,
    rows: StoreWrite[],
  ): void {
    const session = this.#sessionOf(call.id) ?? this.#createSession(call.id);
    session.keepUntilMs = Math.max(session.keepUntilMs, nowMs + call.remainingMs + this.#limits.sessionKeepMs);
    // Whatever the caller reports, this call itself has not ended.
    session.floor = Math.max(session.floor, Math.min(call.lowestPending, call.id.counter));
    this.#removeBelowFloor(session);
    // The row of an entry below the floor is overwritten in this commit, which also records the floor.
    const slot = session.slots.allocate();
    session.table.add(call.id.counter, slot, result);
    this.#bytes += bytesOf(result);
    this.#evictResults(session, call.id.counter, rows);
    const key = session.slots.nameOf(slot);
    rows.push({ key, value: encodeRow(session.floor, call.id.counter, result) });
    if (this.#dropped.size > 0) this.#collectDropped(key, rows);
  }

  /** Throws MALFORMED for a row that `record` has not written. */
  load(key: string, value: Uint8Array, nowMs: number): void {
    const name = readDedupRow(key);
    const row = decodeRow(value);
    if (name === undefined || row === undefined) {
      throw new RemusterError('MALFORMED', `the row "${key.slice(0, 40)}" of the dedup table cannot be decoded`);
    }
    const session = this.#sessions.get(name.session) ?? this.#createSession(callerOf(name.session));
    session.keepUntilMs = nowMs + this.#limits.sessionKeepMs;
    session.floor = Math.max(session.floor, row.floor);
    session.slots.markStored(name.slot);
    session.table.add(row.counter, name.slot, row.result);
    this.#bytes += bytesOf(row.result);
  }

  /** Sorts the loaded rows by counter and drops those below the floor. */
  loadComplete(): void {
    for (const session of this.#sessions.values()) {
      session.table.sort();
      this.#removeBelowFloor(session);
    }
  }

  #sessionOf({ session: caller, generation }: Caller): Session | undefined {
    const recent = this.#recent;
    if (recent !== undefined && recent.generation === generation && recent.caller === caller) return recent;
    const known = this.#sessions.get(callerKeyOf({ session: caller, generation }));
    if (known !== undefined) this.#recent = known;
    return known;
  }

  #createSession({ session: caller, generation }: Caller): Session {
    const name = callerKeyOf({ session: caller, generation });
    const slots = new DedupSlots(name);
    const session: Session = { caller, generation, slots, table: new DedupTable(), floor: 0, keepUntilMs: 0 };
    this.#sessions.set(name, session);
    return session;
  }

  #removeBelowFloor(session: Session): void {
    const { table, floor } = session;
    for (let entry = table.removeBelow(floor); entry !== undefined; entry = table.removeBelow(floor)) {
      this.#bytes -= bytesOf(entry.result);
      this.#release(session, entry.slot);
    }
  }

  #release(session: Session, slot: number): void {
    const row = session.slots.release(slot);
    if (row !== undefined) this.#dropped.add(row);
  }

  /** A row that was just written is not deleted: a dropped session may have returned. */
  #collectDropped(written: string, rows: StoreWrite[]): void {
    this.#dropped.delete(written);
    const end = rows.length + rowsMax;
    for (const key of this.#dropped) {
      if (rows.length >= end) return;
      this.#dropped.delete(key);
      rows.push({ key, value: null });
    }
  }

  #evictResults(session: Session, newest: number, rows: StoreWrite[]): void {
    const { dedupResultsMax, dedupBytesMax, evictedResultsMax } = this.#limits;
    const end = rows.length + rowsMax;
    while (session.table.results > dedupResultsMax && rows.length < end && this.#evictOldest(session, newest, rows));
    while (this.#bytes > dedupBytesMax && rows.length < end && this.#evictOldest(session, newest, rows));
    if (this.#bytes > dedupBytesMax) this.#evictResultsOfOthers(newest, rows, end);
    while (session.table.evicted > evictedResultsMax) {
      const evicted = session.table.removeOldestEvicted();
      if (evicted === undefined) return;
      session.floor = Math.max(session.floor, Math.min(evicted.counter + 1, newest));
      this.#release(session, evicted.slot);
    }
  }

  #evictResultsOfOthers(newest: number, rows: StoreWrite[], end: number): void {
    const { dedupBytesMax } = this.#limits;
    for (const other of this.#sessions.values()) {
      if (this.#bytes <= dedupBytesMax || rows.length >= end) return;
      while (this.#bytes > dedupBytesMax && rows.length < end && this.#evictOldest(other, newest, rows));
    }
  }

  #evictOldest(session: Session, newest: number, rows: StoreWrite[]): boolean {
    const oldest = session.table.oldestResult();
    if (oldest === undefined || oldest.counter === newest) return false;
    this.#bytes -= bytesOf(oldest.result);
    session.table.evictOldestResult();
    const { counter, slot } = oldest;
    rows.push({ key: session.slots.nameOf(slot), value: encodeRow(session.floor, counter, undefined) });
    return true;
  }

  /** Makes room for one more session. */
  #hasRoom(nowMs: number): boolean {
    if (this.#sessions.size < this.#limits.sessionsMax) return true;
    let evicted = 0;
    for (const session of this.#sessions.values()) {
      if (session.keepUntilMs > nowMs) continue;
      this.#evictSession(session);
      if (++evicted === sessionsEvictedMax || this.#dropped.size > droppedMax) break;
    }
    return evicted > 0;
  }

  #evictSession(session: Session): void {
    this.#sessions.delete(callerKeyOf({ session: session.caller, generation: session.generation }));
    if (this.#recent === session) this.#recent = undefined;
    for (const row of session.slots.all()) this.#dropped.add(row);
    for (const { result } of session.table.all()) this.#bytes -= bytesOf(result);
  }
}

function bytesOf(result: DedupResult | undefined): number {
  if (result === undefined) return 0;
  return 'value' in result ? result.value.length : result.error.message.length;
}

function refusedBy(code: 'CAPACITY' | 'PRECONDITION', reason = resultEvicted): DedupResult {
  const message = code === 'CAPACITY' ? reason : `the call cannot run again: ${reason}`;
  return { error: new RemusterError(code, message) };
}

function encodeRow(floor: number, counter: number, result: DedupResult | undefined): Uint8Array {
  if (result === undefined) return encodeValue([floor, counter]);
  if ('value' in result) return encodeValue([floor, counter, result.value], result.value.length + rowHeadBytesMax);
  const { code, message, stateChanged } = result.error;
  return encodeValue([floor, counter, code, message.slice(0, messageCharactersMax), stateChanged]);
}

const rowHeadBytesMax = 40;
const messageCharactersMax = 4_000;

type DecodedRow = {
  readonly floor: number;
  readonly counter: number;
  readonly result: DedupResult | undefined;
};

function decodeRow(row: Uint8Array): DecodedRow | undefined {
  const read = decodeValue(row, row.length);
  const [floor, counter, kept, message, stateChanged]: readonly unknown[] = Array.isArray(read) ? read : [];
  if (typeof floor !== 'number' || typeof counter !== 'number') return undefined;
  if (kept === undefined) return { floor, counter, result: undefined };
  if (kept instanceof Uint8Array) return { floor, counter, result: { value: kept } };
  if (typeof kept !== 'string' || typeof message !== 'string') return undefined;
  const error = new RemusterError(parseErrorCode(kept), message, parseStateChanged(stateChanged));
  return { floor, counter, result: { error } };
}

/** Parses a key of `callerKeyOf`. */
function callerOf(name: string): Caller {
  const at = name.lastIndexOf('/');
  return { session: name.slice(0, at), generation: Number(name.slice(at + 1)) };
}
