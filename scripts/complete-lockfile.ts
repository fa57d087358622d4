/**
 * `node scripts/complete-lockfile.ts`, after a change of dependencies: adds the packages of other platforms that npm
 * leaves out of package-lock.json, since `npm ci` refuses the file without them. Without a checksum, because only the
 * registry has it.
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
  const words = name.split(/[-/]/);
  const system = words.find((word) => systems.includes(word));
  const processor = words.find((word) => processors.includes(word));
  const isWasm = processor === 'wasm32';
  if ((system === undefined && !isWasm) || processor === undefined)
    throw new Error(`the platform of ${name} is not in its name`);
  const libc = words.some((word) => word.startsWith('musl')) ? 'musl' : 'glibc';
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
