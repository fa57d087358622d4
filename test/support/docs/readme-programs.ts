/** The programs of the README as the tests run them. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../../..');

/** The one on the first screen: a file for `remuster run`. */
export function readmeWorkflow(): string {
  return programAt(0);
}

/** The one that runs by itself. */
export function readmeProgram(): string {
  return programAt(1);
}

function programAt(place: number): string {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const program = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)][place]?.[1];
  if (program === undefined) throw new Error(`README.md has no program ${place}`);
  return program;
}

/** What the program prints when it works. */
export const readmeOutput = /^alice was here 42 times\n$/;
