/**
 * Searches a password by its hash on several cores: the first item that finds it ends the others.
 *
 *   remuster run examples/password.ts --cores 4 --env HASH=$(printf '%s' zoo | sha1sum | cut -c1-40)
 */
import { createHash } from 'node:crypto';
import { workflow } from 'remuster';

const letters = Array.from({ length: 26 }, (_, i) => String.fromCodePoint(97 + i));
/** An item is a prefix of one or two letters; `each` tries all words of up to four letters with that prefix. */
const prefixes = letters.flatMap((a) => ['', ...letters].map((b) => a + b));

export default workflow('password', {
  cores: 2,
  first: true,
  items: prefixes,
  setup: (ctx) => ({ hash: ctx.env['HASH'] ?? sha1('mist') }),
  each: (prefix, ctx) => wordsWith(prefix).find((word) => sha1(word) === ctx.data.hash),
});

function wordsWith(prefix: string): string[] {
  if (prefix.length < 2) return [prefix];
  const three = letters.map((letter) => prefix + letter);
  return [prefix, ...three, ...three.flatMap((word) => letters.map((letter) => word + letter))];
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}
