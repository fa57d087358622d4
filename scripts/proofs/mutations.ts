/**
 * Mutation test of the simulator: searches for each mutant (a deliberate bug) the first seed whose run catches it.
 * `--record` stores the seeds for `npm test`. Exits with 1 if a mutant is not caught by a property that its entry
 * names.
 *
 *   node scripts/proofs/mutations.ts [--seeds 200] [--mutant NAME] [--record]
 */
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import {
  searchInProcess,
  searchSeeds,
  type Mutant,
  type MutantReport,
  mutantsFile,
  readMutants,
} from '../../test/support/mutations/mutants.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    mutant: { type: 'string' },
    record: { type: 'boolean', default: false },
    /** Internal: searches one mutant and prints JSON. */
    child: { type: 'boolean', default: false },
    first: { type: 'string', default: '1' },
  },
});

const [seeds, first] = [Number(values.seeds), Number(values.first)];
const mutants = readMutants();
const chosen = mutants.filter(({ name }) => values.mutant === undefined || name === values.mutant);
const minutesMax = 30;

if (!Number.isSafeInteger(seeds) || seeds < 1 || !Number.isSafeInteger(first) || chosen.length === 0) {
  console.error(`usage: --seeds N (1 or more), --mutant ${mutants.map(({ name }) => name).join(' | ')}, --record`);
  process.exitCode = 2;
} else if (values.child) {
  const [mutant] = chosen as [Mutant];
  console.log(JSON.stringify(await searchSeeds(mutant, mutant.scenario, first, seeds)));
} else {
  const found = await searchAll();
  const missed = [...found].filter(([mutant, report]) => !isCaught(mutant, report));
  if (values.record) record(found);
  console.log(`\n${found.size - missed.length} of ${found.size} mutants caught within ${seeds} seeds`);
  process.exitCode = missed.length === 0 ? 0 : 1;
}

async function searchAll(): Promise<ReadonlyMap<Mutant, MutantReport>> {
  const found = new Map<Mutant, MutantReport>();
  const waiting = [...chosen];
  const work = async (): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const report = await searchInProcess(mutant, { first: 1, count: seeds }, minutesMax * 60_000);
      found.set(mutant, report);
      print(mutant, report);
    }
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), chosen.length) }, work));
  return found;
}

function isCaught({ properties }: Mutant, { caught }: MutantReport): boolean {
  return caught !== undefined && properties.includes(caught.property);
}

function print(mutant: Mutant, { caught, seedsRun }: MutantReport): void {
  if (caught === undefined) return console.log(`${mutant.name}: NOT caught in ${seedsRun} seeds`);
  const unexpected = isCaught(mutant, { caught, seedsRun }) ? '' : ' (NOT one of the properties in its entry)';
  console.log(`${mutant.name}: seed ${caught.seed}, ${caught.property}: ${caught.message}${unexpected}`);
}

function record(found: ReadonlyMap<Mutant, MutantReport>): void {
  const next: Mutant[] = [];
  for (const mutant of mutants) next.push({ ...mutant, seed: found.get(mutant)?.caught?.seed ?? mutant.seed });
  writeFileSync(mutantsFile, `${JSON.stringify(next, undefined, 2)}\n`);
}
