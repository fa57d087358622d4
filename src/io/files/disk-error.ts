/** Maps file system errors to error codes. A message has no absolute path unless the caller names it. */
import { RemusterError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';

const codes: Readonly<Record<string, ErrorCode>> = {
  ENOSPC: 'STORE_FULL',
  EDQUOT: 'STORE_FULL',
  EMFILE: 'CAPACITY',
  ENFILE: 'CAPACITY',
  ENOENT: 'BAD_ARGUMENT',
  EISDIR: 'BAD_ARGUMENT',
  ENOTDIR: 'BAD_ARGUMENT',
  ENAMETOOLONG: 'BAD_ARGUMENT',
};

export function errnoOf(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : '';
}

export function diskError(what: string, error: unknown): RemusterError {
  if (error instanceof RemusterError) return error;
  const code = errnoOf(error);
  const text = `${what}: ${code === '' ? 'unexpected failure' : code}`;
  const errorCode = codes[code] ?? 'STORE_FAILED';
  // The process can run out of file descriptors in the middle of an operation, when part of it has happened.
  return errorCode === 'CAPACITY' ? new RemusterError(errorCode, text, 'maybe') : new RemusterError(errorCode, text);
}
