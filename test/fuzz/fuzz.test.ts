/** Every decoder of outside input accepts a mutated input completely or refuses it with a reason. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FuzzTarget, fuzz, runInput } from '../support/fuzz/fuzzer.ts';
import { fuzzTargets } from '../support/fuzz/targets.ts';

const iterations = 20_000;

for (const target of fuzzTargets) {
  test(`${target.name} accepts each of ${iterations} mutated inputs completely or refuses it with a reason`, async (t) => {
    const { rejected, accepted } = await fuzz(target, { iterations, seed: 'test' });
    t.diagnostic(`${accepted} accepted, ${[...rejected].map(([reason, count]) => `${reason} ${count}`).join(', ')}`);
    // Without accepted inputs the fuzzer would only test the header.
    assert.ok(accepted > iterations / 100, 'too few mutations were harmless');
    assert.ok(rejected.size > 0, 'nothing was refused');
  });

  test(`${target.name} handles every truncation and every single flipped bit of a valid input`, () => {
    const short = target.corpus.filter(({ length }) => length < 300).slice(0, 20);
    assert.ok(short.length > 0);
    for (const valid of short) {
      for (let length = 0; length < valid.length; length++) runInput(target, valid.slice(0, length));
      for (let bit = 0; bit < valid.length * 8; bit++) {
        const flipped = valid.slice();
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        runInput(target, flipped);
      }
    }
  });
}

test('the fuzzer reports a decoder that throws an uncoded error', async () => {
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

test('the fuzzer repeats a run with the same seed', async () => {
  const [target] = fuzzTargets as [FuzzTarget];
  const runs = await Promise.all([1, 2].map(() => fuzz(target, { iterations: 500, seed: 'same' })));
  assert.deepEqual(runs[0]?.rejected, runs[1]?.rejected);
});
