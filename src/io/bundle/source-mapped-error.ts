/** Adds the line of the author's source to an error message, by the source map of the bundle. */
import { deployedSourceScheme } from './bundler.ts';

/** `file.ts:3:7: Error: message`, without the position if the stack has none. */
export function sourceMappedMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const frame = error.stack?.split('\n').find((line) => line.includes(deployedSourceScheme));
  const [, position] = new RegExp(`${deployedSourceScheme}([^)\\s]+)`).exec(frame ?? '') ?? [];
  const text = `${error.name}: ${error.message}`;
  return position === undefined ? text : `${position}: ${text}`;
}
