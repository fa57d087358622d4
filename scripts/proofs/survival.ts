/**
 * Writers run while nodes are killed, for `--minutes`: no acknowledged write may be lost, none applied twice.
 *
 *   node scripts/proofs/survival.ts --minutes 10
 *   node scripts/proofs/survival.ts --minutes 2 --every 3 --seed 7
 */
import { parseArgs } from 'node:util';
import { Random } from '../../src/base/random.ts';
import { runSurvival } from '../../test/support/processes/survival.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    /** Seconds between two kills. */
    every: { type: 'string', default: '5' },
    /** Of the choice of victims and of the writes. */
    seed: { type: 'string', default: String(Date.now()) },
  },
});
const minutes = Number(values.minutes);
const everySeconds = Number.parseFloat(values.every);
if (!(minutes > 0)) throw new Error('--minutes takes a number above 0');
if (!(everySeconds > 0)) throw new Error('--every takes a number of seconds above 0');

const cleanups: (() => Promise<void>)[] = [];
const random = new Random(values.seed);
try {
  console.log(`seed ${values.seed}`);
  await runSurvival(
    { after: (cleanUp) => void cleanups.push(cleanUp) },
    {
      durationMs: minutes * 60_000,
      killEveryMs: everySeconds * 1_000,
      random: () => random.fraction(),
      report: (line) => console.log(line),
    },
  );
  console.log('no acknowledged write is lost, none was applied twice, and all histories are linearizable');
} finally {
  for (const cleanUp of cleanups) await cleanUp();
}
