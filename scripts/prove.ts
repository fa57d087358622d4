/**
 * `npm run prove [NAME] [-- ARGUMENTS]`: runs a proof, which takes minutes to hours, or lists them. `npm test` and
 * `npm run test:long` run a short slice of each, except of recovery and failover, which only measure.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { projectRoot } from './testing/stage.ts';

type Proof = { readonly script: string; readonly shows: string; readonly args?: readonly string[] };

const proofs: Readonly<Record<string, Proof>> = {
  seeds: { script: 'sim.ts', args: ['--minutes', '20'], shows: 'new seeds of every scenario for 20 minutes' },
  fuzz: { script: 'proofs/fuzz.ts', shows: 'every decoder survives a million mutated inputs' },
  mutations: { script: 'proofs/mutations.ts', shows: 'the simulator finds every deliberate bug' },
  survival: {
    script: 'proofs/survival.ts',
    shows: 'ten minutes of kills neither lose nor repeat an acknowledged write',
  },
  recovery: { script: 'proofs/recovery.ts', shows: 'how long a container is not callable after its owner is lost' },
  failover: { script: 'proofs/failover.ts', shows: 'how long there is no leader after the leader is killed' },
};

const [name, ...args] = process.argv.slice(2);
const proof = name !== undefined && Object.hasOwn(proofs, name) ? proofs[name] : undefined;

if (proof === undefined) {
  if (name !== undefined) console.error(`there is no proof ${name}; choose one of:`);
  for (const [own, { shows }] of Object.entries(proofs)) console.log(`  npm run prove ${own.padEnd(10)} ${shows}`);
  process.exitCode = name === undefined ? 0 : 2;
} else {
  const script = join(projectRoot, 'scripts', proof.script);
  const proofArgs = args.length > 0 ? args : (proof.args ?? []);
  const child = spawn(process.execPath, [script, ...proofArgs], { stdio: 'inherit' });
  child.once('exit', (code) => (process.exitCode = code ?? 1));
}
