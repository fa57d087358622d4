import assert from 'node:assert/strict';
import { it } from 'node:test';
import { failpointNames } from '../../base/failpoints.ts';
import { Random } from '../../base/random.ts';
import { FailpointCoverage, FailpointDraws } from './failpoint-draws.ts';

it('a failpoint is enabled for about a quarter of the seeds and fires in about a quarter of its calls', () => {
  const label = failpointNames[0]!;
  let enabled = 0;
  let fired = 0;
  for (let seed = 0; seed < 1_000; seed++) {
    const draws = new FailpointDraws(new Random(String(seed)));
    for (let call = 0; call < 100; call++) draws.failpoints(label);
    const count = draws.fired.get(label) ?? 0;
    if (count > 0) enabled += 1;
    fired += count;
  }
  assert.ok(enabled > 200 && enabled < 300, `${enabled} of 1000 seeds`);
  assert.ok(fired / enabled > 23 && fired / enabled < 27, `${fired / enabled} of 100 calls`);
});

it('the failpoints of two worlds in one process are independent', () => {
  const draw = (seed: string) => {
    const { failpoints } = new FailpointDraws(new Random(seed));
    return () => failpointNames.map((label) => failpoints(label));
  };
  const [a, b, alone] = [draw('5'), draw('6'), draw('5')];
  for (let i = 0; i < 50; i++) {
    const mixed = a();
    b();
    assert.deepEqual(mixed, alone());
  }
});

it('disabled failpoints never fire', () => {
  for (let seed = 0; seed < 20; seed++) {
    const draws = new FailpointDraws(new Random(String(seed)));
    draws.disable();
    for (let call = 0; call < 50; call++)
      for (const label of failpointNames) assert.equal(draws.failpoints(label), false);
  }
});

it('failpoint coverage reports which failpoints fired and which never did', () => {
  const coverage = new FailpointCoverage();
  assert.deepEqual(coverage.report().neverFired, failpointNames);
  for (let seed = 0; seed < 40; seed++) {
    const draws = new FailpointDraws(new Random(String(seed)));
    for (let call = 0; call < 50; call++) draws.failpoints('notify-queue-full');
    coverage.add(draws);
  }
  const { fired, neverFired } = coverage.report();
  assert.ok((fired['notify-queue-full'] ?? 0) > 0);
  assert.deepEqual(
    neverFired,
    failpointNames.filter((label) => label !== 'notify-queue-full'),
  );
});
