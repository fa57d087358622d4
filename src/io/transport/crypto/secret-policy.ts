/**
 * Refuses secrets that can be guessed: HKDF is not a password hash, so an attacker who captures one packet can guess
 * offline. The message names the weakness, never the secret.
 */
import { RemusterError } from '../../../base/errors.ts';

const secretLengthMin = 16;
const secretLengthMax = 1_024;
const distinctMin = 8;
/** Replaces the secret where none is configured. It protects nothing; it avoids a code path without encryption. */
export const loopbackOnlySecret = 'remuster public loopback secret, not a secret 7f3a91c2';

const commonWords = [
  'password',
  'passw0rd',
  'passwort',
  'changeme',
  'letmein',
  'welcome',
  'default',
  'cluster',
  'remuster',
  'secret',
  'admin',
  'qwerty',
  'qwertz',
  'asdfgh',
  'zxcvbn',
  'iloveyou',
  'monkey',
  'dragon',
  'test',
  'example',
];
const sequences =
  'abcdefghijklmnopqrstuvwxyz 0123456789012345678 qwertyuiopasdfghjklzxcvbnm 1qaz2wsx3edc4rfv5tgb6yhn7ujm';
const sequenceLengthMin = 4;

/** Throws WEAK_SECRET; the message names the weakness, never the secret. */
export function checkSecret(secret: string): void {
  const weakness = weaknessOf(secret);
  if (weakness !== undefined) throw new RemusterError('WEAK_SECRET', `the secret ${weakness}`);
}

function weaknessOf(secret: string): string | undefined {
  if (secret.length < secretLengthMin) return `has fewer than ${secretLengthMin} characters`;
  if (secret.length > secretLengthMax) return `has more than ${secretLengthMax} characters`;
  if (new Set(secret).size < distinctMin) return `has fewer than ${distinctMin} different characters`;
  if (isRepetition(secret)) return 'repeats one short part';
  if (unpredictableCount(secret) < distinctMin) return 'consists of common words and sequences';
  return undefined;
}

function isRepetition(secret: string): boolean {
  for (let period = 1; period <= secret.length / 2; period++) {
    if (
      secret ===
      secret
        .slice(0, period)
        .repeat(Math.ceil(secret.length / period))
        .slice(0, secret.length)
    )
      return true;
  }
  return false;
}

/** Number of characters without common words, sequences of the keyboard or alphabet, and repeats. */
function unpredictableCount(secret: string): number {
  let rest = secret.toLowerCase();
  for (const word of commonWords) rest = rest.replaceAll(word, '');
  let count = 0;
  for (let at = 0; at < rest.length;) {
    const run = sequenceAt(rest, at);
    if (run < sequenceLengthMin) count += 1;
    at += run < sequenceLengthMin ? 1 : run;
  }
  return count;
}

function sequenceAt(text: string, at: number): number {
  let length = 1;
  while (at + length < text.length && isSequence(text.slice(at, at + length + 1))) length += 1;
  return length;
}

function isSequence(part: string): boolean {
  const backwards = part.split('').toReversed().join('');
  return sequences.includes(part) || sequences.includes(backwards) || part === part.charAt(0).repeat(part.length);
}
