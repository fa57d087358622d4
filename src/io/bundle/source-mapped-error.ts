/** Errors of bundled code as its author knows it: the map in the bundle leads the stack back to the lines of the sources. */
import { deployedSourceScheme } from './bundler.ts';

/** With the line of the author, if the stack knows it. */
export function sourceMappedMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const frame = error.stack?.split('\n').find((line) => line.includes(deployedSourceScheme));
  const [, place] = new RegExp(`${deployedSourceScheme}([^)\\s]+)`).exec(frame ?? '') ?? [];
  const text = `${error.name}: ${error.message}`;
  return place === undefined ? text : `${place}: ${text}`;
}
