/** Describes whatever user code threw as bounded text with the author's line. Never throws itself. */

/** How the bundler calls the files of the author (io/bundle/bundler.ts), and so the stack of an error does. */
const authorScheme = 'deployed:';
const placePattern = new RegExp(`${authorScheme}([^)\\s]+)`);
const bytesPerCharacterMax = 3;

/** At most so many bytes of well-formed UTF-8. */
export function truncateUtf8(text: string, bytesMax: number): string {
  return text.slice(0, Math.floor(bytesMax / bytesPerCharacterMax)).toWellFormed();
}

const unshowable = 'something that cannot be shown was thrown';

/** `TypeError: x is not a function`; of plain errors only the message, and only the name if there is no message. */
export function thrownMessage(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return textOf(thrown);
    const { name, message } = thrown as { readonly name: unknown; readonly message: unknown };
    const code: unknown = 'code' in thrown ? thrown.code : undefined;
    const head = typeof code === 'string' ? code : String(name);
    if (message === '') return head;
    return head === 'Error' || head === '' ? String(message) : `${head}: ${String(message)}`;
  } catch {
    return unshowable;
  }
}

/** The two of them apart; what is no error, and has no name, has the name Error. */
export function thrownError(thrown: unknown): { readonly name: string; readonly message: string } {
  try {
    if (!(thrown instanceof Error)) return { name: nameOf(thrown), message: textOf(thrown) };
    const { name, message } = thrown as { readonly name: unknown; readonly message: unknown };
    return { name: String(name), message: String(message) };
  } catch {
    return { name: 'Error', message: unshowable };
  }
}

function nameOf(thrown: unknown): string {
  const isNamed = typeof thrown === 'object' && thrown !== null && 'name' in thrown && typeof thrown.name === 'string';
  return isNamed && thrown.name !== '' ? (thrown.name as string) : 'Error';
}

/** Of a plain object its message, else JSON. */
function textOf(thrown: unknown): string {
  if (thrown === '') return 'an empty text was thrown';
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

/** `checkout.ts:12:7`, or nothing. */
export function thrownLocation(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return '';
    return placePattern.exec(String(thrown.stack))?.[1] ?? '';
  } catch {
    return '';
  }
}

/** Both, for one line. */
export function describeThrown(thrown: unknown): string {
  const place = thrownLocation(thrown);
  return place === '' ? thrownMessage(thrown) : `${thrownMessage(thrown)} (${place})`;
}
