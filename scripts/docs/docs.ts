/** `npm run docs`: generates docs/reference from the tables of the code; `--check` only compares. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { limitsPage } from './limits-page.ts';
import { errorsPage, optionsPage } from './options-page.ts';
import { protocolPage } from './protocol-page.ts';

const folder = resolve(import.meta.dirname, '../../docs/reference');
const pages: Readonly<Record<string, string>> = {
  'protocol.md': protocolPage(),
  'options.md': optionsPage(),
  'errors.md': errorsPage(),
  'limits.md': limitsPage(),
};

const checkOnly = process.argv.includes('--check');
let stale = 0;
for (const [name, text] of Object.entries(pages)) {
  const file = join(folder, name);
  if (existsSync(file) && readFileSync(file, 'utf8') === text) continue;
  stale += 1;
  if (checkOnly) {
    console.error(`docs/reference/${name} is stale: run npm run docs and read the difference`);
  } else {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, text);
    console.log(`wrote docs/reference/${name}`);
  }
}
console.log(`${Object.keys(pages).length} generated pages, ${stale} ${checkOnly ? 'stale' : 'changed'}`);
if (checkOnly && stale > 0) process.exitCode = 1;
