/** An error message with the line of the author's source, by the bundle's source map. */
import { deployedSourceScheme } from './bundler.ts';

/** With the line of the author, if the stack knows it. */
export function sourceMappedMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const frame = error.stack?.split('\n').find((line) => line.includes(deployedSourceScheme));
  const [, place] = new RegExp(`${deployedSourceScheme}([^)\\s]+)`).exec(frame ?? '') ?? [];
  const text = `${error.name}: ${error.message}`;
  return place === undefined ? text : `${place}: ${text}`;
}
