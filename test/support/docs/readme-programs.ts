/** The programs of the README, as the tests run them. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../../..');

/** The first program: a workflow file for `remuster run`. */
export function readmeWorkflow(): string {
  return programAt(0);
}

/** The second program, which runs by itself. */
export function readmeProgram(): string {
  return programAt(1);
}

function programAt(place: number): string {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const program = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)][place]?.[1];
  if (program === undefined) throw new Error(`README.md has no program ${place}`);
  return program;
}

/** The expected output of the program. */
export const readmeOutput = /^alice was here 42 times\n$/;
