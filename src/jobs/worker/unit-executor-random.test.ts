import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../base/random.ts';
import type { UnitAssignment } from '../../messages/jobs.ts';
import {
  type FakeRunnerBehaviour,
  WorkerScene,
  unitAssignmentOf,
  unitSpecOf,
} from '../../../test/support/jobs/worker-harness.ts';

const behaviours: readonly FakeRunnerBehaviour[] = [
  ...(['quick', 'patient', 'deaf', 'dies', 'fails', 'babbles', 'lies', 'steady'] as const),
];

/** Whatever is given, stopped, lost and changed: cores add up at each moment, and everything ends once and is told. */
function wander(
  seed: string,
  isCrowd: boolean,
): { readonly taken: number; readonly refused: number; readonly behind: number } {
  const random = new Random(seed);
  const cores = 1 + random.below(4);
  const scene = new WorkerScene({ cores, seed, leaseMs: 4_000, ...(random.chance(0.7) ? { ahead: 4 } : {}) });
  const taken = new Map<string, UnitAssignment>();
  const attempts = new Map<string, number>();
  let refused = 0;
  const givenBefore: UnitAssignment[] = [];

  const giveCrowd = (): void => {
    for (let count = 1 + random.below(12); count > 0; count--) giveOne(`c${random.below(1_000)}`, true);
  };
  const give = (): void => (isCrowd ? giveCrowd() : giveOne(`j${random.below(30)}`, random.chance(0.5)));

  const giveOne = (job: string, mayWait: boolean): void => {
    const again = givenBefore.length > 0 && random.chance(0.2);
    const attempt = (attempts.get(job) ?? 0) + 1;
    const behaviour = random.pick(behaviours);
    const timeoutMs = random.pick([200, 3_000, 60_000]);
    const odd = { bundle: scene.bundle(behaviour), submitter: random.pick(['a', 'b']), network: random.chance(0.5) };
    const even = {
      bundle: scene.bundle('quick'),
      facts: random.chance(0.05) ? JSON.stringify({ behaviour }) : '{}',
    };
    const order = unitSpecOf(job, { ...(isCrowd ? even : odd), timeoutMs });
    const fresh = unitAssignmentOf(order, { attempt, fence: BigInt(attempt), mayWait });
    const unit = again ? random.pick(givenBefore) : fresh;
    const [code] = scene.give([unit]);
    if (!again) {
      attempts.set(job, attempt);
      givenBefore.push(unit);
    }
    if (code === undefined) taken.set(`${unit.job} ${unit.attempt}`, unit);
    else refused += 1;
  };

  const acts: readonly (() => void)[] = [
    ...[give, give, give, give],
    () => void (givenBefore.length > 0 && scene.stop([random.pick(givenBefore)])),
    () => scene.worker.setDraining(random.chance(0.3)),
    () => scene.worker.leaderChanged(),
    () => {
      scene.answerReports = random.chance(0.7);
    },
    () => {
      scene.answerNews = random.chance(0.7);
    },
    () => {
      scene.registryFails = random.chance(0.3);
    },
    () => {
      scene.runners.failing = random.chance(0.2);
    },
  ];

  for (let step = 0; step < 150; step++) {
    random.pick(acts)();
    scene.pass(random.pick([0, 1, 7, 60, 600]));
    const { total, free } = scene.worker.coreCounts();
    assert.equal(total, cores);
    assert.ok(free >= 0 && free <= total);
    assert.ok(scene.runners.busy <= total, `${scene.runners.busy} units run on ${total} cores`);
    assert.equal(scene.worker.aliveRunners(), scene.runners.alive);
    assert.ok(scene.runners.alive <= 3 * cores + 3, `${scene.runners.alive} processes`);
  }

  Object.assign(scene, { answerReports: true, answerNews: true, registryFails: false });
  scene.runners.failing = false;
  scene.worker.leaderChanged();
  scene.pass(120_000);
  assert.deepEqual(scene.worker.coreCounts(), { total: cores, free: cores });
  assert.equal(scene.worker.runningUnits(), 0);
  for (const unit of taken.values()) {
    const ends = scene.ends(unit.job).filter(({ attempt }) => attempt === unit.attempt);
    assert.equal(ends.length, 1, `${unit.job} attempt ${unit.attempt} ended ${ends.length} times`);
  }
  assert.deepEqual(scene.reports.at(-1)?.attempts, []);
  let isOver = false;
  scene.worker.stop(() => {
    isOver = true;
  });
  scene.pass(2_000);
  assert.ok(isOver);
  assert.equal(scene.runners.alive, 0);
  for (const [attempt, count] of scene.runners.attemptsBegun) assert.equal(count, 1, `${attempt} began ${count} times`);
  return { taken: taken.size, refused, behind: scene.runners.begunBehind };
}

test('cores add up and everything ends, whatever happens', () => {
  let [taken, refused] = [0, 0];
  for (let seed = 1; seed <= 50; seed++) {
    const walked = wander(`walk ${seed}`, false);
    taken += walked.taken;
    refused += walked.refused;
  }
  assert.ok(taken > 800 && refused > 100, `looked at ${taken} units that were taken and ${refused} refusals`);
});

test('the same with many short units, which runners are given ahead', () => {
  let [taken, behind] = [0, 0];
  for (let seed = 1; seed <= 50; seed++) {
    const walked = wander(`crowd ${seed}`, true);
    taken += walked.taken;
    behind += walked.behind;
  }
  assert.ok(taken > 2_000 && behind > 500, `looked at ${taken} units that were taken, ${behind} behind others`);
});
