/**
 * Whether a request of this command may have changed something, so that an error of a later one does not promise that
 * nothing happened. One command is one process. Never forgets.
 */
import { type RemusterError, isRemusterError, withPossibleEffect } from '../../base/errors.ts';

let mayHaveChanged = false;

/** Runs one request that is meant to change something. */
export async function changing<T>(request: () => Promise<T>): Promise<T> {
  try {
    const answer = await request();
    mayHaveChanged = true;
    return answer;
  } catch (error) {
    if (!isRemusterError(error) || error.stateChanged !== 'no') mayHaveChanged = true;
    throw error;
  }
}

/** What the whole command may say about its end. */
export function errorOfCommand(error: RemusterError): RemusterError {
  return mayHaveChanged ? withPossibleEffect(error) : error;
}
