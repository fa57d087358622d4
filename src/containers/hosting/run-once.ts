/**
 * Which calls have run in a container, and what they answered: so that a call which is sent again, after a crash, a move
 * or a lost reply, gets the first answer and does not run twice. It is part of the container's state and is committed
 * with what the call wrote.
 *
 * Callers say up to where they have heard everything (`lowest`), and that far it is forgotten; whatever comes from there
 * nevertheless is refused. Where too much is kept, the oldest answers are dropped and only the fact that they were given
 * remains: such a call is refused as well, never run again. A session of which no call can be sent again is forgotten
 * altogether when its place is needed.
 */
import { errorCodeOf, RemusterError } from '../../base/errors.ts';
import type { CallId } from '../../base/ids.ts';
import type { StoreWrite } from '../../base/ports.ts';
import { decodeValue, encodeValue } from '../../messages/value.ts';
import type { HostingLimits } from './limits.ts';
import { onceRow, readOnceRow, sessionOf } from './rows.ts';

/** What a call answered: its encoded result, or the error with which it refused. */
export type GivenAnswer = { readonly value: Uint8Array } | { readonly error: RemusterError };

type Session = {
  readonly name: string;
  /** By counter, in the order in which they were given. */
  readonly answers: Map<number, GivenAnswer>;
  /** Have run; what they answered is not known any more. */
  readonly given: Set<number>;
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

export class RunOnce {
  readonly #limits: HostingLimits;
  readonly #sessions = new Map<string, Session>();
  /** Rows that are to go with the next commit. */
  readonly #dropped: string[] = [];
  #bytes = 0;

  constructor(limits: HostingLimits) {
    this.#limits = limits;
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  /** Somebody else than that life of a caller has written here. */
  hasOthersThan(session: string): boolean {
    return this.#sessions.size > (this.#sessions.has(session) ? 1 : 0);
  }

  /** Of all answers that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Undefined: it has not run, and may. Otherwise what it answered, or why it can neither run nor be answered. */
  find(id: CallId, nowMs: number): GivenAnswer | undefined {
    const session = this.#sessions.get(sessionOf(id));
    if (session === undefined) return this.#hasRoom(nowMs) ? undefined : refusedBy('CAPACITY', 'too many callers');
    if (id.counter < session.floor) return refusedBy('PRECONDITION', 'its caller had said that it was over');
    return session.answers.get(id.counter) ?? (session.given.has(id.counter) ? refusedBy('PRECONDITION') : undefined);
  }

  /** Keeps the answer, and adds the rows that make it durable. `remainingMs` is how long its caller may send it again. */
  keep(
    call: { readonly id: CallId; readonly lowest: number; readonly remainingMs: number },
    answer: GivenAnswer,
    nowMs: number,
    rows: StoreWrite[],
  ): void {
    const session = this.#sessionOf(sessionOf(call.id));
    session.keepUntilMs = Math.max(session.keepUntilMs, nowMs + call.remainingMs + this.#limits.sessionKeepMs);
    // Whatever it claims, this call itself is not over.
    session.floor = Math.max(session.floor, Math.min(call.lowest, call.id.counter));
    this.#add(session, call.id.counter, answer);
    this.#forgetBelowFloor(session);
    this.#shorten(session, call.id.counter, rows);
    rows.push({ key: onceRow(session.name, call.id.counter), value: encodeAnswer(session.floor, answer) });
    for (const key of this.#dropped.splice(0, rowsMax)) rows.push({ key, value: null });
  }

  /** Throws MALFORMED for what `keep` has not made. */
  load(key: string, value: Uint8Array, nowMs: number): void {
    const name = readOnceRow(key);
    const row = decodeAnswer(value);
    if (name === undefined || row === undefined) {
      throw new RemusterError('MALFORMED', 'a remembered answer cannot be read');
    }
    const session = this.#sessionOf(name.session);
    session.keepUntilMs = nowMs + this.#limits.sessionKeepMs;
    session.floor = Math.max(session.floor, row.floor);
    if (row.answer === undefined) session.given.add(name.counter);
    else this.#add(session, name.counter, row.answer);
  }

  #sessionOf(name: string): Session {
    const known = this.#sessions.get(name);
    if (known !== undefined) return known;
    const session: Session = { name, answers: new Map(), given: new Set(), floor: 0, keepUntilMs: 0 };
    this.#sessions.set(name, session);
    return session;
  }

  #add(session: Session, counter: number, answer: GivenAnswer): void {
    session.answers.set(counter, answer);
    this.#bytes += bytesOf(answer);
  }

  /** Counters arrive nearly in order, so what stands behind a later one just waits for it. */
  #forgetBelowFloor(session: Session): void {
    for (const counter of session.given) {
      if (counter >= session.floor) break;
      session.given.delete(counter);
      this.#dropped.push(onceRow(session.name, counter));
    }
    for (const [counter, answer] of session.answers) {
      if (counter >= session.floor) break;
      session.answers.delete(counter);
      this.#bytes -= bytesOf(answer);
      this.#dropped.push(onceRow(session.name, counter));
    }
  }

  #shorten(session: Session, newest: number, rows: StoreWrite[]): void {
    const { answersMax, answerBytesMax, givenMax } = this.#limits;
    const end = rows.length + rowsMax;
    while (session.answers.size > answersMax && rows.length < end && this.#dropOldest(session, newest, rows));
    while (this.#bytes > answerBytesMax && rows.length < end && this.#dropOldest(session, newest, rows));
    for (const other of this.#sessions.values()) {
      if (this.#bytes <= answerBytesMax || rows.length >= end) break;
      while (this.#bytes > answerBytesMax && rows.length < end && this.#dropOldest(other, newest, rows));
    }
    for (const counter of session.given) {
      if (session.given.size <= givenMax) break;
      session.given.delete(counter);
      session.floor = Math.max(session.floor, Math.min(counter + 1, newest));
      this.#dropped.push(onceRow(session.name, counter));
    }
  }

  #dropOldest(session: Session, newest: number, rows: StoreWrite[]): boolean {
    for (const [counter, answer] of session.answers) {
      if (counter === newest) return false;
      session.answers.delete(counter);
      this.#bytes -= bytesOf(answer);
      session.given.add(counter);
      rows.push({ key: onceRow(session.name, counter), value: encodeAnswer(session.floor, undefined) });
      return true;
    }
    return false;
  }

  /** For one more session. */
  #hasRoom(nowMs: number): boolean {
    if (this.#sessions.size < this.#limits.sessionsMax) return true;
    let evicted = 0;
    for (const session of this.#sessions.values()) {
      if (session.keepUntilMs > nowMs) continue;
      this.#evict(session);
      if (++evicted === evictedMax || this.#dropped.length > droppedMax) break;
    }
    return evicted > 0;
  }

  #evict(session: Session): void {
    this.#sessions.delete(session.name);
    for (const counter of session.given) this.#dropped.push(onceRow(session.name, counter));
    for (const [counter, answer] of session.answers) {
      this.#bytes -= bytesOf(answer);
      this.#dropped.push(onceRow(session.name, counter));
    }
  }
}

function bytesOf(answer: GivenAnswer): number {
  return 'value' in answer ? answer.value.length : answer.error.message.length;
}

function refusedBy(code: 'CAPACITY' | 'PRECONDITION', why = noAnswer): GivenAnswer {
  return { error: new RemusterError(code, `the call cannot run: ${why}`) };
}

function encodeAnswer(floor: number, answer: GivenAnswer | undefined): Uint8Array {
  if (answer === undefined) return encodeValue([floor]);
  if ('value' in answer) return encodeValue([floor, answer.value], answer.value.length + rowHeadBytesMax);
  const { code, message } = answer.error;
  return encodeValue([floor, code, message.slice(0, messageCharactersMax)]);
}

const rowHeadBytesMax = 32;
const messageCharactersMax = 4_000;

function decodeAnswer(
  row: Uint8Array,
): { readonly floor: number; readonly answer: GivenAnswer | undefined } | undefined {
  const read = decodeValue(row, row.length);
  const [floor, kept, message]: readonly unknown[] = Array.isArray(read) ? read : [];
  if (typeof floor !== 'number') return undefined;
  if (kept === undefined) return { floor, answer: undefined };
  if (kept instanceof Uint8Array) return { floor, answer: { value: kept } };
  if (typeof kept !== 'string' || typeof message !== 'string') return undefined;
  return { floor, answer: { error: new RemusterError(errorCodeOf(kept), message) } };
}
