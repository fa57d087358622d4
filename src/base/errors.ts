/**
 * RemusterError, and `Outcome`/`Done` for callbacks. Never carries a stack trace, path or secret to another process.
 */
import { type ErrorCode, type ErrorRow, type StateChanged, errorTable } from './error-table.ts';

export type { ErrorCode, StateChanged } from './error-table.ts';

/** A registered symbol instead of `instanceof`: two installed copies of the package recognise each other's errors. */
const brand = Symbol.for('remuster.error');

export class RemusterError extends Error {
  override readonly name = 'RemusterError';
  readonly [brand] = true;
  readonly code: ErrorCode;
  /** May be more precise than the row of the code. 'no' is a promise that the request had no effect. */
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

/** The same error with another `stateChanged`. */
export function withStateChanged(error: RemusterError, stateChanged: StateChanged): RemusterError {
  if (error.stateChanged === stateChanged) return error;
  return new RemusterError(error.code, error.message, stateChanged);
}

/** For a caller that may have caused effects before this error: 'no' becomes 'maybe'. */
export function withPossibleEffect(error: RemusterError): RemusterError {
  return error.stateChanged === 'no' ? withStateChanged(error, 'maybe') : error;
}

/** Parses a code from another thread or node. A code that this version does not know is INTERNAL. */
export function parseErrorCode(text: string): ErrorCode {
  return Object.hasOwn(errorTable, text) ? (text as ErrorCode) : 'INTERNAL';
}

/** Parses `stateChanged` from another thread or node. An unknown value promises nothing: 'maybe'. */
export function parseStateChanged(text: unknown): StateChanged {
  return text === 'no' || text === 'yes' ? text : 'maybe';
}

/** An error as a peer, an HTTP client and `-o json` see it. */
export type SerializedError = {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint: string;
  readonly stateChanged: StateChanged;
  readonly retryable: boolean;
};

/** Any other error is a bug of this program: it becomes INTERNAL, and its text stays in the log of this node. */
export function serializeError(error: unknown): SerializedError {
  const known = isRemusterError(error) ? error : new RemusterError('INTERNAL');
  const { code, message, stateChanged } = known;
  const { retryable } = errorTable[code];
  return { code, message, hint: hintOf(code, stateChanged), stateChanged, retryable };
}

/** What to do about the code, and what this very error knows about its effect: the two never contradict each other. */
function hintOf(code: ErrorCode, stateChanged: StateChanged): string {
  const { hint, stateChanged: usual } = errorTable[code];
  if (stateChanged === 'maybe')
    return `${hint} It may have had an effect: check the state, or resend with the same call id.`;
  return stateChanged === 'no' && usual !== 'no' ? `${hint} Nothing was changed.` : hint;
}

/** The result of a port call, as data: an outcome becomes the input of a machine. */
export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: RemusterError };

export type Done<T> = (outcome: Outcome<T>) => void;

export function success<T>(value: T): Outcome<T> {
  return { ok: true, value };
}

/** Pass `stateChanged` when the caller knows it more precisely than the row of the code. */
export function failure(code: ErrorCode, message?: string, stateChanged?: StateChanged): Outcome<never> {
  return { ok: false, error: new RemusterError(code, message, stateChanged) };
}

/** Turns a callback into a promise, for code at the edges that no loop drives. */
export function toPromise<T>(start: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((outcome) => {
      if (outcome.ok) resolve(outcome.value);
      else reject(outcome.error);
    });
  });
}
