/**
 * Looks for a password by its hash, on all cores that there are: the first share that finds it ends all the others.
 *
 *   remuster run examples/password.ts --cores 4 --env HASH=$(printf '%s' zoo | sha1sum | cut -c1-40)
 */
import { createHash } from 'node:crypto';
import { workflow } from 'remuster';

const letters = Array.from({ length: 26 }, (_, i) => String.fromCodePoint(97 + i));
/** Each item is the first two letters; `each` tries all words of up to four letters that begin so. */
const beginnings = letters.flatMap((a) => ['', ...letters].map((b) => a + b));

export default workflow('password', {
  cores: 2,
  first: true,
  items: beginnings,
  setup: (ctx) => ({ hash: ctx.env['HASH'] ?? sha1('mist') }),
  each: (beginning, ctx) => wordsFrom(beginning).find((word) => sha1(word) === ctx.data.hash),
});

function wordsFrom(beginning: string): string[] {
  if (beginning.length < 2) return [beginning];
  const three = letters.map((letter) => beginning + letter);
  return [beginning, ...three, ...three.flatMap((word) => letters.map((letter) => word + letter))];
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}
