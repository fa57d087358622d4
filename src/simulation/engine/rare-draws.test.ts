import assert from 'node:assert/strict';
import { it } from 'node:test';
import { failpointNames } from '../../base/failpoints.ts';
import { Random } from '../../base/random.ts';
import { RareCoverage, RareDraws } from './rare-draws.ts';

it('wakes a label for about a quarter of the seeds, and fires in about a quarter of its calls', () => {
  const label = failpointNames[0]!;
  let awake = 0;
  let fired = 0;
  for (let seed = 0; seed < 1_000; seed++) {
    const draws = new RareDraws(new Random(String(seed)));
    for (let call = 0; call < 100; call++) draws.rare(label);
    const count = draws.fired.get(label) ?? 0;
    if (count > 0) awake += 1;
    fired += count;
  }
  assert.ok(awake > 200 && awake < 300, `${awake} of 1000 seeds`);
  assert.ok(fired / awake > 23 && fired / awake < 27, `${fired / awake} of 100 calls`);
});

it('keeps two worlds of one process apart', () => {
  const draw = (seed: string) => {
    const { rare } = new RareDraws(new Random(seed));
    return () => failpointNames.map((label) => rare(label));
  };
  const [a, b, alone] = [draw('5'), draw('6'), draw('5')];
  for (let i = 0; i < 50; i++) {
    const mixed = a();
    b();
    assert.deepEqual(mixed, alone());
  }
});

it('sleeps when it is told to', () => {
  for (let seed = 0; seed < 20; seed++) {
    const draws = new RareDraws(new Random(String(seed)));
    draws.disable();
    for (let call = 0; call < 50; call++) for (const label of failpointNames) assert.equal(draws.rare(label), false);
  }
});

it('reports what fired and what never did', () => {
  const coverage = new RareCoverage();
  assert.deepEqual(coverage.report().neverFired, failpointNames);
  for (let seed = 0; seed < 40; seed++) {
    const draws = new RareDraws(new Random(String(seed)));
    for (let call = 0; call < 50; call++) draws.rare('notify-queue-full');
    coverage.add(draws);
  }
  const { fired, neverFired } = coverage.report();
  assert.ok((fired['notify-queue-full'] ?? 0) > 0);
  assert.deepEqual(
    neverFired,
    failpointNames.filter((label) => label !== 'notify-queue-full'),
  );
});
