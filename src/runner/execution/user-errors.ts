/** Describes any value thrown by user code as bounded text with the line of the author. Never throws. */

/** The scheme that the bundler gives to the author's files (io/bundle/bundler.ts), as it appears in stack traces. */
const authorScheme = 'deployed:';
const locationPattern = new RegExp(`${authorScheme}([^)\\s]+)`);
const bytesPerCharacterMax = 3;

/** A prefix that is at most `bytesMax` bytes of well-formed UTF-8. */
export function truncateUtf8(text: string, bytesMax: number): string {
  return text.slice(0, Math.floor(bytesMax / bytesPerCharacterMax)).toWellFormed();
}

const unprintable = 'a value that cannot be printed was thrown';

/** `TypeError: x is not a function`; for a plain Error the message alone, without a message the name alone. */
export function thrownMessage(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return textOf(thrown);
    const { name, message } = thrown as { readonly name: unknown; readonly message: unknown };
    const code: unknown = 'code' in thrown ? thrown.code : undefined;
    const head = typeof code === 'string' ? code : String(name);
    if (message === '') return head;
    return head === 'Error' || head === '' ? String(message) : `${head}: ${String(message)}`;
  } catch {
    return unprintable;
  }
}

/** Name and message; a value without a name has the name Error. */
export function thrownError(thrown: unknown): { readonly name: string; readonly message: string } {
  try {
    if (!(thrown instanceof Error)) return { name: nameOf(thrown), message: textOf(thrown) };
    const { name, message } = thrown as { readonly name: unknown; readonly message: unknown };
    return { name: String(name), message: String(message) };
  } catch {
    return { name: 'Error', message: unprintable };
  }
}

function nameOf(thrown: unknown): string {
  const isNamed = typeof thrown === 'object' && thrown !== null && 'name' in thrown && typeof thrown.name === 'string';
  return isNamed && thrown.name !== '' ? (thrown.name as string) : 'Error';
}

/** The message of an object, else its JSON. */
function textOf(thrown: unknown): string {
  if (thrown === '') return 'an empty string was thrown';
  if (typeof thrown !== 'object' || thrown === null) return String(thrown);
  if ('message' in thrown && typeof thrown.message === 'string' && thrown.message !== '') return thrown.message;
  const unnamed = Object.prototype.toString.call(thrown);
  try {
    const json: string | undefined = JSON.stringify(thrown);
    return json ?? unnamed;
  } catch {
    return unnamed;
  }
}

/** `checkout.ts:12:7`; empty if the stack has no line of the author. */
export function thrownLocation(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return '';
    return locationPattern.exec(String(thrown.stack))?.[1] ?? '';
  } catch {
    return '';
  }
}

/** Message and location on one line. */
export function describeThrown(thrown: unknown): string {
  const location = thrownLocation(thrown);
  return location === '' ? thrownMessage(thrown) : `${thrownMessage(thrown)} (${location})`;
}
