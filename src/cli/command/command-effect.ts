/**
 * Remembers whether a request of this command may have changed state, so that the error of a later request does not
 * claim that nothing changed. One command is one process: the flag is never reset.
 */
import { type RemusterError, isRemusterError, withPossibleEffect } from '../../base/errors.ts';

let mayHaveChanged = false;

/** Sends one request that changes state. */
export async function trackEffect<T>(request: () => Promise<T>): Promise<T> {
  try {
    const reply = await request();
    mayHaveChanged = true;
    return reply;
  } catch (error) {
    if (!isRemusterError(error) || error.stateChanged !== 'no') mayHaveChanged = true;
    throw error;
  }
}

/** The error with the effect of all requests of this command so far. */
export function withCommandEffect(error: RemusterError): RemusterError {
  return mayHaveChanged ? withPossibleEffect(error) : error;
}
