import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../base/random.ts';
import type { UnitAssignment } from '../../messages/jobs.ts';
import { WorkerTestBed, unitAssignmentOf, unitSpecOf } from '../../../test/support/jobs/worker-harness.ts';
import type { FakeRunnerBehaviour } from '../../../test/fakes/fake-runners.ts';

const behaviours: readonly FakeRunnerBehaviour[] = [
  ...([
    'quick',
    'runsUntilStopped',
    'ignoresStop',
    'dies',
    'fails',
    'sendsGarbage',
    'namesUnknownRun',
    'reportsProgress',
  ] as const),
];

/** Assigns, stops and fails at random: cores add up after each step, and every accepted unit reports one end. */
function runRandomly(
  seed: string,
  hasShortUnits: boolean,
): { readonly accepted: number; readonly refused: number; readonly prefetched: number } {
  const random = new Random(seed);
  const cores = 1 + random.below(4);
  const bed = new WorkerTestBed({ cores, seed, leaseMs: 4_000, ...(random.chance(0.7) ? { prefetch: 4 } : {}) });
  const accepted = new Map<string, UnitAssignment>();
  const attempts = new Map<string, number>();
  let refused = 0;
  const assignedBefore: UnitAssignment[] = [];

  const assignMany = (): void => {
    for (let count = 1 + random.below(12); count > 0; count--) assignOne(`c${random.below(1_000)}`, true);
  };
  const assign = (): void => (hasShortUnits ? assignMany() : assignOne(`j${random.below(30)}`, random.chance(0.5)));

  const assignOne = (job: string, mayWait: boolean): void => {
    const isDuplicate = assignedBefore.length > 0 && random.chance(0.2);
    const attempt = (attempts.get(job) ?? 0) + 1;
    const behaviour = random.pick(behaviours);
    const timeoutMs = random.pick([200, 3_000, 60_000]);
    const mixed = { bundle: bed.bundle(behaviour), submitter: random.pick(['a', 'b']), network: random.chance(0.5) };
    const short = {
      bundle: bed.bundle('quick'),
      facts: random.chance(0.05) ? JSON.stringify({ behaviour }) : '{}',
    };
    const order = unitSpecOf(job, { ...(hasShortUnits ? short : mixed), timeoutMs });
    const fresh = unitAssignmentOf(order, { attempt, fence: BigInt(attempt), mayWait });
    const unit = isDuplicate ? random.pick(assignedBefore) : fresh;
    const [code] = bed.assign([unit]);
    if (!isDuplicate) {
      attempts.set(job, attempt);
      assignedBefore.push(unit);
    }
    if (code === undefined) accepted.set(`${unit.job} ${unit.attempt}`, unit);
    else refused += 1;
  };

  const actions: readonly (() => void)[] = [
    ...[assign, assign, assign, assign],
    () => void (assignedBefore.length > 0 && bed.stop([random.pick(assignedBefore)])),
    () => bed.worker.setDraining(random.chance(0.3)),
    () => bed.worker.leaderChanged(),
    () => {
      bed.answersHeartbeats = random.chance(0.7);
    },
    () => {
      bed.acknowledgesReports = random.chance(0.7);
    },
    () => {
      bed.registryFails = random.chance(0.3);
    },
    () => {
      bed.runners.failing = random.chance(0.2);
    },
  ];

  for (let step = 0; step < 150; step++) {
    random.pick(actions)();
    bed.pass(random.pick([0, 1, 7, 60, 600]));
    const { total, free } = bed.worker.coreCounts();
    assert.equal(total, cores);
    assert.ok(free >= 0 && free <= total);
    assert.ok(bed.runners.busy <= total, `${bed.runners.busy} units run on ${total} cores`);
    assert.equal(bed.worker.aliveRunners(), bed.runners.alive);
    assert.ok(bed.runners.alive <= 3 * cores + 3, `${bed.runners.alive} processes`);
  }

  Object.assign(bed, { answersHeartbeats: true, acknowledgesReports: true, registryFails: false });
  bed.runners.failing = false;
  bed.worker.leaderChanged();
  bed.pass(120_000);
  assert.deepEqual(bed.worker.coreCounts(), { total: cores, free: cores });
  assert.equal(bed.worker.runningUnits(), 0);
  for (const unit of accepted.values()) {
    const ends = bed.ends(unit.job).filter(({ attempt }) => attempt === unit.attempt);
    assert.equal(ends.length, 1, `${unit.job} attempt ${unit.attempt} ended ${ends.length} times`);
  }
  assert.deepEqual(bed.heartbeats.at(-1)?.attempts, []);
  let isOver = false;
  bed.worker.stop(() => {
    isOver = true;
  });
  bed.pass(2_000);
  assert.ok(isOver);
  assert.equal(bed.runners.alive, 0);
  for (const [attempt, count] of bed.runners.startsByAttempt)
    assert.equal(count, 1, `${attempt} started ${count} times`);
  return { accepted: accepted.size, refused, prefetched: bed.runners.prefetchedStarts };
}

test('cores add up and every accepted unit ends once, whatever happens', () => {
  let [accepted, refused] = [0, 0];
  for (let seed = 1; seed <= 50; seed++) {
    const run = runRandomly(`walk ${seed}`, false);
    accepted += run.accepted;
    refused += run.refused;
  }
  assert.ok(accepted > 800 && refused > 100, `only ${accepted} accepted units and ${refused} refusals`);
});

test('cores add up and every accepted unit ends once, with many short units that runners prefetch', () => {
  let [accepted, prefetched] = [0, 0];
  for (let seed = 1; seed <= 50; seed++) {
    const run = runRandomly(`crowd ${seed}`, true);
    accepted += run.accepted;
    prefetched += run.prefetched;
  }
  assert.ok(accepted > 2_000 && prefetched > 500, `only ${accepted} accepted units, ${prefetched} of them prefetched`);
});
