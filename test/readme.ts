/** The program on the first screen of the README, which the tests run as it stands there. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');

export function readmeProgram(): string {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const program = /```ts\n([\s\S]*?)```/.exec(readme)?.[1];
  if (program === undefined) throw new Error('README.md has no program');
  return program;
}

/** What the program prints when it works. */
export const readmeOutput = /^alice was here 42 times\n$/;
