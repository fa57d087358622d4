/**
 * `npm run prove NAME [-- ARGUMENTS]`: proofs that take minutes to hours; without a name it lists them. The two tiers of
 * the tests run the shortest slice of each but recovery and failover, which only measure.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { projectRoot } from './testing/stage.ts';

type Proof = { readonly script: string; readonly shows: string; readonly words?: readonly string[] };

const proofs: Readonly<Record<string, Proof>> = {
  seeds: { script: 'sim.ts', words: ['--minutes', '20'], shows: 'new seeds of every scenario for 20 minutes' },
  fuzz: { script: 'proofs/fuzz.ts', shows: 'a million mutated inputs for every decoder' },
  mutations: { script: 'proofs/mutations.ts', shows: 'the simulator finds every deliberate bug' },
  survival: { script: 'proofs/survival.ts', shows: 'ten minutes of kills lose and double no acknowledged write' },
  recovery: { script: 'proofs/recovery.ts', shows: 'how long a container is gone after its owner is lost' },
  failover: { script: 'proofs/failover.ts', shows: 'how long there is no leader after it is killed' },
};

const [name, ...words] = process.argv.slice(2);
const proof = name !== undefined && Object.hasOwn(proofs, name) ? proofs[name] : undefined;

if (proof === undefined) {
  if (name !== undefined) console.error(`there is no proof called ${name}`);
  for (const [own, { shows }] of Object.entries(proofs)) console.log(`  npm run prove ${own.padEnd(10)} ${shows}`);
  process.exitCode = name === undefined ? 0 : 2;
} else {
  const given = words.length > 0 ? words : (proof.words ?? []);
  const child = spawn(process.execPath, [join(projectRoot, 'scripts', proof.script), ...given], { stdio: 'inherit' });
  child.once('exit', (code) => (process.exitCode = code ?? 1));
}
