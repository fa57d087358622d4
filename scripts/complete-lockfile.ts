/**
 * `node scripts/complete-lockfile.ts`, after a change of dependencies: adds the packages of other platforms that npm
 * leaves out of package-lock.json, because `npm ci` refuses the file without them. They have no checksum, which only
 * the registry knows.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { type Lockfile, missingFromLockfile } from '../test/support/rules/lockfile.ts';

const systems = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const processors = ['arm', 'arm64', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64'];

const file = resolve(import.meta.dirname, '../package-lock.json');
const lock = JSON.parse(readFileSync(file, 'utf8')) as Lockfile;
const missing = missingFromLockfile(lock);
for (const { name, version, dev } of missing) {
  const parts = name.split(/[-/]/);
  const system = parts.find((part) => systems.includes(part));
  const processor = parts.find((part) => processors.includes(part));
  const isWasm = processor === 'wasm32';
  if ((system === undefined && !isWasm) || processor === undefined)
    throw new Error(`the name of the package ${name} contains no known platform: extend systems or processors`);
  const libc = parts.some((part) => part.startsWith('musl')) ? 'musl' : 'glibc';
  lock.packages[`node_modules/${name}`] = {
    version,
    cpu: [processor],
    ...(dev ? { dev } : {}),
    ...(system === 'linux' ? { libc: [libc] } : {}),
    optional: true,
    ...(system === undefined ? {} : { os: [system] }),
  };
}
const byName = Object.entries(lock.packages).toSorted(([a], [b]) => a.localeCompare(b, 'en'));
writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(byName) }, null, 2)}\n`);
console.log(`${missing.length} packages added to package-lock.json`);
