/**
 * Mutants: deliberate bugs as data. A source file is loaded with one applied, in a process of its own, because a loaded
 * module stays loaded. Never edits a file. Each mutant names the scenario and the properties that must find it.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

type Edit = {
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly find: string;
  readonly replace: string;
};

export type Mutant = Edit & {
  readonly name: string;
  readonly why: string;
  /** Further edits, where several places guard against the same bug. */
  readonly also?: readonly Edit[];
  readonly scenario: string;
  readonly properties: readonly string[];
  /** The first seed that finds it in a search from seed 1 on. */
  readonly seed: number;
};

export type MutantReport = {
  readonly seedsRun: number;
  /** Undefined if no seed found it. */
  readonly caught?: { readonly seed: number; readonly property: string; readonly message: string };
};

export const sourceRoot = new URL('../../../', import.meta.url);
export const mutantsFile = fileURLToPath(new URL('../../mutations/mutants.json', import.meta.url));
const script = fileURLToPath(new URL('scripts/proofs/mutations.ts', sourceRoot));

export function readMutants(): readonly Mutant[] {
  return JSON.parse(readFileSync(mutantsFile, 'utf8')) as readonly Mutant[];
}

/** From now on the files of the mutant are loaded with the bug. Must be called before they are imported. */
function inject(mutant: Mutant): { readonly isInjected: () => boolean } {
  const edits = [mutant, ...(mutant.also ?? [])];
  const left = new Set(edits.map(({ file }) => new URL(file, sourceRoot).href));
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const own = edits.filter(({ file }) => url === new URL(file, sourceRoot).href);
      if (own.length === 0) return loaded;
      let text = loaded.source instanceof Uint8Array ? new TextDecoder().decode(loaded.source) : '';
      for (const { file, find, replace } of own) {
        const parts = text.split(find);
        if (parts.length !== 2)
          throw new Error(`${file} contains the lines of this mutant ${parts.length - 1} times, not once`);
        text = parts.join(replace);
      }
      left.delete(url);
      return { ...loaded, source: text };
    },
  });
  return { isInjected: () => left.size === 0 };
}

/** Runs seeds until one violates a property. With a mutant, no module of the sources may be loaded before. */
export async function searchSeeds(
  mutant: Mutant | undefined,
  scenarioFile: string,
  first: number,
  seeds: number,
): Promise<MutantReport> {
  const injection = mutant === undefined ? undefined : inject(mutant);
  const [{ runSeed }, { parseScenario }, { scenarioCatalog: catalog }] = await Promise.all([
    import('../../simulation/scenario/seed-run.ts'),
    import('../../simulation/scenario/scenario.ts'),
    import('../../simulation/scenario/scenario-catalog.ts'),
  ]);
  if (injection?.isInjected() === false) throw new Error(`no scenario code imports ${mutant?.file}`);
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
  const args = ['--child', '--mutant', mutant.name, '--first', `${seeds.first}`, '--seeds', `${seeds.count}`];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, ...args], { timeout: timeoutMs, killSignal: 'SIGKILL' });
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
