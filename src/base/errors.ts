/**
 * RemusterError, and `Outcome`/`Done` for callbacks. Never carries a stack trace, path or secret to another process.
 */
import { type ErrorCode, type ErrorRow, type StateChanged, errorTable } from './error-table.ts';

export type { ErrorCode, StateChanged } from './error-table.ts';

/** Recognised by a registered symbol, so that two installed copies of the package understand each other. */
const brand = Symbol.for('remuster.error');

export class RemusterError extends Error {
  override readonly name = 'RemusterError';
  readonly [brand] = true;
  readonly code: ErrorCode;
  /** Of this error, which may know more than its code: 'no' is a promise that the request had no effect. */
  readonly stateChanged: StateChanged;

  constructor(code: ErrorCode, message?: string, stateChanged: StateChanged = errorTable[code].stateChanged) {
    super(message ?? errorTable[code].summary);
    this.code = code;
    this.stateChanged = stateChanged;
  }

  get row(): ErrorRow {
    return errorTable[this.code];
  }
}

export function isRemusterError(value: unknown, code?: ErrorCode): value is RemusterError {
  if (typeof value !== 'object' || value === null || !(brand in value)) return false;
  return code === undefined || (value as RemusterError).code === code;
}

/** The same error with another answer to whether anything happened. */
export function withStateChanged(error: RemusterError, stateChanged: StateChanged): RemusterError {
  if (error.stateChanged === stateChanged) return error;
  return new RemusterError(error.code, error.message, stateChanged);
}

/** The caller has caused effects before this error, or may have: the error can no longer promise that there are none. */
export function withPossibleEffect(error: RemusterError): RemusterError {
  return error.stateChanged === 'no' ? withStateChanged(error, 'maybe') : error;
}

/** A code that came as text, from another thread or over a wire; one that this version does not know is INTERNAL. */
export function parseErrorCode(text: string): ErrorCode {
  return Object.hasOwn(errorTable, text) ? (text as ErrorCode) : 'INTERNAL';
}

/** As it came as text; what this version does not know promises nothing. */
export function parseStateChanged(text: unknown): StateChanged {
  return text === 'no' || text === 'yes' ? text : 'maybe';
}

/** What an error looks like to the other side of a wire, the HTTP interface and `-o json`. */
export type SerializedError = {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint: string;
  readonly stateChanged: StateChanged;
  readonly retryable: boolean;
};

/** Anything that is not one of ours is a mistake of ours: its text stays in the log and does not travel. */
export function serializeError(error: unknown): SerializedError {
  const known = isRemusterError(error) ? error : new RemusterError('INTERNAL');
  const { code, message, stateChanged } = known;
  const { retryable } = errorTable[code];
  return { code, message, hint: hintOf(code, stateChanged), stateChanged, retryable };
}

/** What to do about the code, and what this very error knows about its effect: the two never contradict each other. */
function hintOf(code: ErrorCode, stateChanged: StateChanged): string {
  const { hint, stateChanged: usual } = errorTable[code];
  if (stateChanged === 'maybe') return `${hint} It may have had an effect: look, or resend with the same call id.`;
  return stateChanged === 'no' && usual !== 'no' ? `${hint} Nothing was changed.` : hint;
}

/** How ports report an ending: as data, because an outcome becomes the input of a machine. */
export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: RemusterError };

export type Done<T> = (outcome: Outcome<T>) => void;

export function success<T>(value: T): Outcome<T> {
  return { ok: true, value };
}

/** `stateChanged` where this place knows it better than the row of the code. */
export function failure(code: ErrorCode, message?: string, stateChanged?: StateChanged): Outcome<never> {
  return { ok: false, error: new RemusterError(code, message, stateChanged) };
}

/** Turns a callback ending into a promise, for code at the edges that is not driven by a loop. */
export function toPromise<T>(start: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((outcome) => {
      if (outcome.ok) resolve(outcome.value);
      else reject(outcome.error);
    });
  });
}
