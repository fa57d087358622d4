/**
 * Contains uncaught exceptions and rejections of user code. A failed assertion of the runner still ends the process.
 */
import process from 'node:process';
import { AssertionFailed } from '../../base/assert.ts';

/** Returns a function that ends the process as an uncaught error would without the guard. */
export function guardProcess(onUncaught: (error: unknown) => void): (why: string) => void {
  const fatal = process.listeners('uncaughtException');
  const end = (error: Error): void => {
    for (const listener of fatal) listener(error, 'uncaughtException');
  };
  process.removeAllListeners('uncaughtException');
  const contain = (error: unknown): void => {
    if (error instanceof AssertionFailed) end(error);
    else onUncaught(error);
  };
  process.on('uncaughtException', contain);
  process.on('unhandledRejection', contain);
  return (why) => end(new Error(why));
}
