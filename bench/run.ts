/**
 * `node bench/run.ts [NAME] [-o json]`: runs one bench, or lists them. Further flags for some benches, described in
 * their headers: `--nodes N --trials N --idle-seconds N --rounds N --seconds N --only PART`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { type Bench, printResult } from './support/harness.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    output: { type: 'string', short: 'o', default: 'text' },
    nodes: { type: 'string' },
    trials: { type: 'string' },
    'idle-seconds': { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    only: { type: 'string' },
  },
});
const folder = import.meta.dirname;
const names = readdirSync(folder)
  .filter(
    (file) => file.endsWith('.ts') && /^export const bench: Bench/m.test(readFileSync(join(folder, file), 'utf8')),
  )
  .map((file) => file.slice(0, -'.ts'.length));
const [name] = positionals;
if (name === undefined) {
  console.log(names.join('\n'));
} else if (!names.includes(name)) {
  console.error(`there is no bench ${name}; choose one of ${names.join(', ')}`);
  process.exitCode = 2;
} else {
  const { bench } = (await import(join(folder, `${name}.ts`))) as { bench: Bench };
  printResult(name, await bench(values), values.output === 'json');
}
