/**
 * `npm run prove fuzz -- [--iterations N] [--seed TEXT] [--target NAME]`: the long fuzz run. Exits with 1 and prints
 * the input when a decoder misbehaves. `npm test` has a short one.
 */
import { parseArgs } from 'node:util';
import { type FuzzReport, fuzz } from '../../test/support/fuzz/fuzzer.ts';
import { fuzzTargets } from '../../test/support/fuzz/targets.ts';

const { values } = parseArgs({
  options: {
    iterations: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: String(Date.now()) },
    target: { type: 'string' },
  },
});

const iterations = Number(values.iterations);
const chosen = fuzzTargets.filter(({ name }) => values.target === undefined || name === values.target);

if (!Number.isSafeInteger(iterations) || iterations < 1 || chosen.length === 0) {
  console.error(`usage: --iterations N (1 or more), --target ${fuzzTargets.map(({ name }) => name).join(' | ')}`);
  process.exit(2);
}

console.log(`fuzzing ${chosen.map(({ name }) => name).join(', ')} with --seed ${values.seed}`);
for (const target of chosen) print(await fuzz(target, { iterations, seed: values.seed }));

function print(report: FuzzReport): void {
  const { target, accepted, rejected, slowestMs, slowestBytes, grownBytesMax } = report;
  console.log(`\n${target}: ${report.iterations} mutated inputs, ${accepted} accepted`);
  for (const [reason, count] of [...rejected].toSorted((a, b) => b[1] - a[1])) {
    console.log(`  ${String(count).padStart(10)}  ${reason}`);
  }
  const grownMiB = (grownBytesMax / 2 ** 20).toFixed(1);
  const slowest = `slowest input ${slowestMs.toFixed(2)} ms of CPU time (${slowestBytes} bytes)`;
  console.log(`  ${slowest}, memory at most ${grownMiB} MiB above the start`);
}
