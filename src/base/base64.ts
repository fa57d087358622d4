/** Base64 without Node APIs. */
import { RemusterError } from './errors.ts';

const charactersAtOnce = 8_192;

export function encodeBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += charactersAtOnce)
    parts.push(String.fromCharCode(...bytes.subarray(at, at + charactersAtOnce)));
  return btoa(parts.join(''));
}

/** BAD_ARGUMENT when the text is something else. */
export function decodeBase64(text: string): Uint8Array {
  let characters: string;
  try {
    characters = atob(text);
  } catch {
    throw new RemusterError('BAD_ARGUMENT', 'the bytes are not base64');
  }
  return Uint8Array.from(characters, (character) => character.codePointAt(0) as number);
}
