/**
 * Turns what the operating system says about files into our codes. The path stays out of the message unless the caller
 * names it: absolute paths of this machine do not travel.
 */
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
  return new RemusterError(codes[code] ?? 'STORE_FAILED', `${what}: ${code === '' ? 'unexpected failure' : code}`);
}
