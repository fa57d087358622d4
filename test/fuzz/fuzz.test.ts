import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FuzzTarget, fuzz, runInput } from '../support/fuzz/fuzzer.ts';
import { fuzzTargets } from '../support/fuzz/targets.ts';

const iterations = 20_000;

for (const family of fuzzTargets) {
  test(`${family.name}: ${iterations} mutated inputs are accepted whole or refused with a reason`, async (t) => {
    const { rejected, accepted } = await fuzz(family, { iterations, seed: 'test' });
    t.diagnostic(`${accepted} accepted, ${[...rejected].map(([reason, count]) => `${reason} ${count}`).join(', ')}`);
    // A fuzzer that reaches nothing but the header proves nothing.
    assert.ok(accepted > iterations / 100, 'too few mutations were harmless');
    assert.ok(rejected.size > 0, 'nothing was refused');
  });

  test(`${family.name}: every truncation and every single flipped bit of a valid input`, () => {
    const short = family.corpus.filter(({ length }) => length < 300).slice(0, 20);
    assert.ok(short.length > 0);
    for (const valid of short) {
      for (let length = 0; length < valid.length; length++) runInput(family, valid.slice(0, length));
      for (let bit = 0; bit < valid.length * 8; bit++) {
        const flipped = valid.slice();
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        runInput(family, flipped);
      }
    }
  });
}

test('a decoder that fails in another way is found out', async () => {
  const faulty: FuzzTarget = {
    name: 'faulty',
    headerBytes: 0,
    corpus: [Uint8Array.of(1, 2, 3)],
    reasonOf: () => undefined,
    attempt: (input) => {
      if (input.length > 3) throw new TypeError('not a coded error');
    },
  };
  await assert.rejects(
    fuzz(faulty, { iterations: 1_000, seed: 'test' }),
    /faulty.*--seed test --iterations \d+, input /,
  );
});

test('the same seed gives the same run', async () => {
  const [family] = fuzzTargets as [FuzzTarget];
  const runs = await Promise.all([1, 2].map(() => fuzz(family, { iterations: 500, seed: 'same' })));
  assert.deepEqual(runs[0]?.rejected, runs[1]?.rejected);
});
