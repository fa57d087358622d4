/** Base64 in the standard alphabet, without Node APIs. Throws BAD_ARGUMENT for text that is not base64. */
import { RemusterError } from './errors.ts';

const charactersPerCall = 8_192;

export function encodeBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += charactersPerCall)
    parts.push(String.fromCharCode(...bytes.subarray(at, at + charactersPerCall)));
  return btoa(parts.join(''));
}

export function decodeBase64(text: string): Uint8Array {
  let characters: string;
  try {
    characters = atob(text);
  } catch {
    throw new RemusterError('BAD_ARGUMENT', 'the text is not base64');
  }
  return Uint8Array.from(characters, (character) => character.codePointAt(0) as number);
}
