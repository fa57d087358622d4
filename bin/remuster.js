#!/usr/bin/env node
/**
 * The launcher: runs the sources in a clone and the built files in an installed package. Plain JavaScript, so that an
 * old Node prints the required version instead of a syntax error.
 */
import { existsSync } from 'node:fs';
import process from 'node:process';

const needed = [24, 16];
const [major, minor] = process.versions.node.split('.').map(Number);

if (major < needed[0] || (major === needed[0] && minor < needed[1])) {
  process.stderr.write(`remuster needs Node ${needed.join('.')} or newer, but this is Node ${process.version}.\n`);
  process.exitCode = 2;
} else {
  const source = new URL('../src/cli/main.ts', import.meta.url);
  await import(existsSync(source) ? source.href : new URL('../dist/cli/main.js', import.meta.url).href);
}
