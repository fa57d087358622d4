/**
 * Deliberate bugs as data; loads a source file with one applied, in a process of its own, because a loaded module
 * stays. Never edits the disk.
 *
 * Each names the scenario that must find it and the properties that may be the one that speaks.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

type Edit = {
  readonly file: string;
  /** Must be there exactly once. */
  readonly find: string;
  readonly replace: string;
};

export type Mutant = Edit & {
  readonly name: string;
  readonly why: string;
  /** Where several places guard against the same mistake. */
  readonly also?: readonly Edit[];
  readonly scenario: string;
  readonly properties: readonly string[];
  /** Where an honest search from seed 1 on has found it. */
  readonly seed: number;
};

export type MutantReport = {
  readonly seedsRun: number;
  /** Absent: not caught. */
  readonly caught?: { readonly seed: number; readonly property: string; readonly message: string };
};

export const sourceRoot = new URL('../../../', import.meta.url);
export const mutantsFile = fileURLToPath(new URL('../../mutations/mutants.json', import.meta.url));
const script = fileURLToPath(new URL('scripts/proofs/mutations.ts', sourceRoot));

export function readMutants(): readonly Mutant[] {
  return JSON.parse(readFileSync(mutantsFile, 'utf8')) as readonly Mutant[];
}

/** From now on the files of the mutant are loaded with the bug in them. Call before anything imports them. */
function plant(mutant: Mutant): { readonly wasPlanted: () => boolean } {
  const edits = [mutant, ...(mutant.also ?? [])];
  const left = new Set(edits.map(({ file }) => new URL(file, sourceRoot).href));
  registerHooks({
    load(wanted, context, nextLoad) {
      const loaded = nextLoad(wanted, context);
      const own = edits.filter(({ file }) => wanted === new URL(file, sourceRoot).href);
      if (own.length === 0) return loaded;
      let text = loaded.source instanceof Uint8Array ? new TextDecoder().decode(loaded.source) : '';
      for (const { file, find, replace } of own) {
        const parts = text.split(find);
        if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places for this mutant, not one`);
        text = parts.join(replace);
      }
      left.delete(wanted);
      return { ...loaded, source: text };
    },
  });
  return { wasPlanted: () => left.size === 0 };
}

/** Seed after seed until one violates a property. With a mutant only in a process that has loaded nothing of ours yet. */
export async function searchSeeds(
  mutant: Mutant | undefined,
  scenarioFile: string,
  first: number,
  seeds: number,
): Promise<MutantReport> {
  const plot = mutant === undefined ? undefined : plant(mutant);
  const [{ runSeed }, { parseScenario }, { scenarioCatalog: catalog }] = await Promise.all([
    import('../../simulation/scenario/seed-run.ts'),
    import('../../simulation/scenario/scenario.ts'),
    import('../../simulation/scenario/scenario-catalog.ts'),
  ]);
  if (plot?.wasPlanted() === false) throw new Error(`nothing has loaded ${mutant?.file}`);
  const scenario = parseScenario(JSON.parse(readFileSync(new URL(scenarioFile, sourceRoot), 'utf8')));
  for (let seed = first; seed < first + seeds; seed++) {
    const { violation } = runSeed({ scenario, seed, catalog });
    if (violation !== undefined) return { seedsRun: seed - first + 1, caught: { seed, ...violation } };
  }
  return { seedsRun: seeds };
}

/** Runs a mutant in a process of its own. */
export function searchInProcess(
  mutant: Mutant,
  seeds: { readonly first: number; readonly count: number },
  timeoutMs: number,
): Promise<MutantReport> {
  const words = ['--child', '--mutant', mutant.name, '--first', `${seeds.first}`, '--seeds', `${seeds.count}`];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, ...words], { timeout: timeoutMs, killSignal: 'SIGKILL' });
    let [out, err] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(JSON.parse(out) as MutantReport);
      else reject(new Error(`mutant ${mutant.name} ended with ${signal ?? code}: ${err.slice(-2_000)}`));
    });
  });
}
