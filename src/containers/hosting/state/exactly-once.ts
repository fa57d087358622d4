/**
 * Remembers call ids and results in the container's state, so a resent call gets the first result. A forgotten result
 * is refused, never run again. Bounded.
 *
 * Callers say up to where they have heard everything (`lowestPending`), and that far it is forgotten; whatever comes from
 * there nevertheless is refused. Where too much is kept, the oldest answers are dropped and only the fact that they
 * were given remains: such a call is refused as well, never run again. A session of which no call can be sent again is
 * forgotten altogether when its place is needed.
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
  readonly kept: DedupTable;
  /** Every counter below is over. */
  floor: number;
  /** After this none of its calls is sent again. */
  keepUntilMs: number;
};

/** Sessions that are forgotten in one go, and rows that are changed in one commit because of it: it must stay small. */
const evictedMax = 64;
const rowsMax = 200;
/** While more rows than these wait to be dropped, sessions are forgotten one by one. */
const droppedMax = 10_000;
const noAnswer = 'it has run before, but what it answered is not kept any more';

export class ExactlyOnce {
  readonly #limits: HostingLimits;
  readonly #sessions = new Map<string, Session>();
  /** The one that was asked for last: calls of a session often come together. */
  #recent: Session | undefined;
  /** Rows that are to go with the next commit. */
  readonly #dropped = new Set<string>();
  #bytes = 0;

  constructor(limits: HostingLimits) {
    this.#limits = limits;
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  /** Somebody else than that life of a caller has written here. */
  hasOtherCallersThan(session: string): boolean {
    return this.#sessions.size > (this.#sessions.has(session) ? 1 : 0);
  }

  /** Of all answers that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Undefined: it has not run, and may. Otherwise what it answered, or why it can neither run nor be answered. */
  find(id: CallId, nowMs: number): DedupResult | undefined {
    const session = this.#known(id);
    if (session === undefined) return this.#hasRoom(nowMs) ? undefined : refusedBy('CAPACITY', 'too many callers');
    if (id.counter < session.floor) return refusedBy('PRECONDITION', 'its caller had said that it was over');
    const kept = session.kept.find(id.counter);
    return kept === undefined ? undefined : (kept.answer ?? refusedBy('PRECONDITION'));
  }

  /** Keeps the answer, and adds the rows that make it durable. `remainingMs` is how long its caller may send it again. */
  record(
    call: { readonly id: CallId; readonly lowestPending: number; readonly remainingMs: number },
    answer: DedupResult,
    nowMs: number,
    rows: StoreWrite[],
  ): void {
    const session = this.#known(call.id) ?? this.#begin(call.id);
    session.keepUntilMs = Math.max(session.keepUntilMs, nowMs + call.remainingMs + this.#limits.sessionKeepMs);
    // Whatever it claims, this call itself is not over.
    session.floor = Math.max(session.floor, Math.min(call.lowestPending, call.id.counter));
    this.#forgetBelowFloor(session);
    // Where something lay that is over by now: it is written over in this commit, with the floor that says so.
    const slot = session.slots.allocate();
    session.kept.add(call.id.counter, slot, answer);
    this.#bytes += bytesOf(answer);
    this.#shorten(session, call.id.counter, rows);
    const key = session.slots.nameOf(slot);
    rows.push({ key, value: encodeAnswer(session.floor, call.id.counter, answer) });
    if (this.#dropped.size > 0) this.#drop(key, rows);
  }

  /** Throws MALFORMED for what `keep` has not made. */
  load(key: string, value: Uint8Array, nowMs: number): void {
    const name = readDedupRow(key);
    const row = decodeAnswer(value);
    if (name === undefined || row === undefined) {
      throw new RemusterError('MALFORMED', 'a remembered answer cannot be read');
    }
    const session = this.#sessions.get(name.session) ?? this.#begin(callerOf(name.session));
    session.keepUntilMs = nowMs + this.#limits.sessionKeepMs;
    session.floor = Math.max(session.floor, row.floor);
    session.slots.markStored(name.slot);
    session.kept.add(row.counter, name.slot, row.answer);
    this.#bytes += bytesOf(row.answer);
  }

  /** Rows lie in another order than that in which they were given, and some say what is over. */
  loadComplete(): void {
    for (const session of this.#sessions.values()) {
      session.kept.sort();
      this.#forgetBelowFloor(session);
    }
  }

  #known({ session: caller, generation }: Caller): Session | undefined {
    const recent = this.#recent;
    if (recent !== undefined && recent.generation === generation && recent.caller === caller) return recent;
    const known = this.#sessions.get(callerKeyOf({ session: caller, generation }));
    if (known !== undefined) this.#recent = known;
    return known;
  }

  #begin({ session: caller, generation }: Caller): Session {
    const name = callerKeyOf({ session: caller, generation });
    const slots = new DedupSlots(name);
    const session: Session = { caller, generation, slots, kept: new DedupTable(), floor: 0, keepUntilMs: 0 };
    this.#sessions.set(name, session);
    return session;
  }

  #forgetBelowFloor(session: Session): void {
    const { kept, floor } = session;
    for (let over = kept.removeBelow(floor); over !== undefined; over = kept.removeBelow(floor)) {
      this.#bytes -= bytesOf(over.answer);
      this.#free(session, over.slot);
    }
  }

  #free(session: Session, slot: number): void {
    const row = session.slots.release(slot);
    if (row !== undefined) this.#dropped.add(row);
  }

  /** A session that was forgotten and has come back writes where its rows were to go. */
  #drop(written: string, rows: StoreWrite[]): void {
    this.#dropped.delete(written);
    const end = rows.length + rowsMax;
    for (const key of this.#dropped) {
      if (rows.length >= end) return;
      this.#dropped.delete(key);
      rows.push({ key, value: null });
    }
  }

  #shorten(session: Session, newest: number, rows: StoreWrite[]): void {
    const { dedupResultsMax, answerBytesMax, givenMax } = this.#limits;
    const end = rows.length + rowsMax;
    while (session.kept.answers > dedupResultsMax && rows.length < end && this.#dropOldest(session, newest, rows));
    while (this.#bytes > answerBytesMax && rows.length < end && this.#dropOldest(session, newest, rows));
    if (this.#bytes > answerBytesMax) this.#shortenOthers(newest, rows, end);
    while (session.kept.evicted > givenMax) {
      const given = session.kept.removeOldestEvicted();
      if (given === undefined) return;
      session.floor = Math.max(session.floor, Math.min(given.counter + 1, newest));
      this.#free(session, given.slot);
    }
  }

  #shortenOthers(newest: number, rows: StoreWrite[], end: number): void {
    const { answerBytesMax } = this.#limits;
    for (const other of this.#sessions.values()) {
      if (this.#bytes <= answerBytesMax || rows.length >= end) return;
      while (this.#bytes > answerBytesMax && rows.length < end && this.#dropOldest(other, newest, rows));
    }
  }

  #dropOldest(session: Session, newest: number, rows: StoreWrite[]): boolean {
    const oldest = session.kept.oldestAnswer();
    if (oldest === undefined || oldest.counter === newest) return false;
    this.#bytes -= bytesOf(oldest.answer);
    session.kept.dropOldestAnswer();
    const { counter, slot } = oldest;
    rows.push({ key: session.slots.nameOf(slot), value: encodeAnswer(session.floor, counter, undefined) });
    return true;
  }

  /** For one more session. */
  #hasRoom(nowMs: number): boolean {
    if (this.#sessions.size < this.#limits.sessionsMax) return true;
    let evicted = 0;
    for (const session of this.#sessions.values()) {
      if (session.keepUntilMs > nowMs) continue;
      this.#evict(session);
      if (++evicted === evictedMax || this.#dropped.size > droppedMax) break;
    }
    return evicted > 0;
  }

  #evict(session: Session): void {
    this.#sessions.delete(callerKeyOf({ session: session.caller, generation: session.generation }));
    if (this.#recent === session) this.#recent = undefined;
    for (const row of session.slots.all()) this.#dropped.add(row);
    for (const { answer } of session.kept.all()) this.#bytes -= bytesOf(answer);
  }
}

function bytesOf(answer: DedupResult | undefined): number {
  if (answer === undefined) return 0;
  return 'value' in answer ? answer.value.length : answer.error.message.length;
}

function refusedBy(code: 'CAPACITY' | 'PRECONDITION', why = noAnswer): DedupResult {
  const message = code === 'CAPACITY' ? why : `the call cannot run again: ${why}`;
  return { error: new RemusterError(code, message) };
}

function encodeAnswer(floor: number, counter: number, answer: DedupResult | undefined): Uint8Array {
  if (answer === undefined) return encodeValue([floor, counter]);
  if ('value' in answer) return encodeValue([floor, counter, answer.value], answer.value.length + rowHeadBytesMax);
  const { code, message, stateChanged } = answer.error;
  return encodeValue([floor, counter, code, message.slice(0, messageCharactersMax), stateChanged]);
}

const rowHeadBytesMax = 40;
const messageCharactersMax = 4_000;

type ReadAnswer = {
  readonly floor: number;
  readonly counter: number;
  readonly answer: DedupResult | undefined;
};

function decodeAnswer(row: Uint8Array): ReadAnswer | undefined {
  const read = decodeValue(row, row.length);
  const [floor, counter, kept, message, stateChanged]: readonly unknown[] = Array.isArray(read) ? read : [];
  if (typeof floor !== 'number' || typeof counter !== 'number') return undefined;
  if (kept === undefined) return { floor, counter, answer: undefined };
  if (kept instanceof Uint8Array) return { floor, counter, answer: { value: kept } };
  if (typeof kept !== 'string' || typeof message !== 'string') return undefined;
  const error = new RemusterError(parseErrorCode(kept), message, parseStateChanged(stateChanged));
  return { floor, counter, answer: { error } };
}

/** Of a name as `callerKeyOf` makes it. */
function callerOf(name: string): Caller {
  const at = name.lastIndexOf('/');
  return { session: name.slice(0, at), generation: Number(name.slice(at + 1)) };
}
