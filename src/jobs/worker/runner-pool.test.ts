import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { UnitAssignment } from '../../messages/jobs.ts';
import { WorkerScene, unitAssignmentOf, unitSpecOf } from '../../../test/support/jobs/worker-harness.ts';

describe('a worker and its runners', () => {
  for (const [behaviour, what, code] of [
    ['dies', 'failed', 'RUNNER_KILLED'],
    ['fails', 'failed', 'WORKFLOW_FAILED'],
    ['babbles', 'failed', 'RUNNER_KILLED'],
    ['lies', 'failed', 'RUNNER_KILLED'],
  ] as const) {
    test(`one that ${behaviour}: the core comes back, the next unit gets another process`, () => {
      const scene = new WorkerScene({ cores: 1 });
      scene.give([unitAssignmentOf(unitSpecOf('bad', { bundle: scene.bundle(behaviour) }))]);
      scene.pass(1_000);
      assert.deepEqual(
        scene.ends('bad').map((end) => [end.status, end.code]),
        [[what, code]],
      );
      assert.equal(scene.worker.coreCounts().free, 1);
      scene.give([unitAssignmentOf(unitSpecOf('good', { bundle: scene.bundle('quick') }))]);
      scene.pass(1_000);
      assert.equal(scene.ends('good')[0]?.status, 'completed');
    });
  }

  test('one is used again for the same code, submitter and limits, and for nothing else', () => {
    const scene = new WorkerScene({ cores: 1 });
    const bundle = scene.bundle('quick');
    const run = (job: string, changed = {}): number => {
      const before = scene.runners.codeSent;
      scene.give([unitAssignmentOf(unitSpecOf(job, { bundle, ...changed }))]);
      scene.pass(200);
      assert.equal(scene.ends(job)[0]?.status, 'completed');
      return scene.runners.codeSent - before;
    };
    assert.equal(run('first'), 1);
    assert.equal(run('same'), 0);
    assert.equal(run('submitter', { submitter: 'other' }), 1);
    assert.equal(run('network', { network: true }), 1);
    assert.equal(run('memory', { memoryMb: 512 }), 1);
    assert.equal(run('code', { bundle: scene.bundle('quick', 'other') }), 1);
    assert.ok(scene.runners.alive <= 4);
  });

  test('one that says that its code goes on is not used again', () => {
    const scene = new WorkerScene({ cores: 1 });
    const bundle = scene.bundle('spends');
    for (const job of ['first', 'second']) {
      scene.give([unitAssignmentOf(unitSpecOf(job, { bundle }))]);
      scene.pass(1_000);
      assert.equal(scene.ends(job)[0]?.status, 'completed');
      assert.equal(scene.worker.coreCounts().free, 1);
    }
    assert.equal(scene.runners.codeSent, 2);
  });

  test('runners that cannot start do not spin, and their units fail with the reason', () => {
    const scene = new WorkerScene({ cores: 1 });
    scene.runners.failing = true;
    scene.give([unitAssignmentOf(unitSpecOf('first', { bundle: scene.bundle('fails') }))]);
    scene.pass(5_000);
    scene.give([unitAssignmentOf(unitSpecOf('second', { bundle: scene.bundle('quick', '2') }))]);
    scene.pass(10_000);
    assert.equal(scene.ends('second')[0]?.code, 'RUNNER_KILLED');
    assert.match(scene.ends('second')[0]?.message ?? '', /cannot start/);
    const before = scene.runners.started;
    scene.pass(60_000);
    assert.ok(scene.runners.started - before < 12, `${scene.runners.started - before} starts in a minute`);
    scene.runners.failing = false;
    scene.pass(60_000);
    assert.ok(scene.worker.aliveRunners() >= 1);
    assert.equal(scene.worker.coreCounts().free, 1);
  });

  test('code is fetched once, checked, and shared by those who wait for it', () => {
    const scene = new WorkerScene();
    const bundle = scene.bundle('quick', 'in two parts');
    scene.give([unitAssignmentOf(unitSpecOf('a', { bundle })), unitAssignmentOf(unitSpecOf('b', { bundle }))]);
    scene.pass(200);
    assert.equal(scene.fetches, 2, 'two parts');
    assert.equal(scene.ends('a')[0]?.status, 'completed');
    assert.equal(scene.ends('b')[0]?.status, 'completed');
    scene.give([unitAssignmentOf(unitSpecOf('c', { bundle }))]);
    scene.pass(200);
    assert.equal(scene.fetches, 2);
  });

  test('code that nobody has fails the unit, a registry that does not answer gives it back', () => {
    const scene = new WorkerScene();
    scene.give([unitAssignmentOf(unitSpecOf('unknown', { bundle: 'f'.repeat(64) }))]);
    scene.pass(60_000);
    assert.equal(scene.ends('unknown')[0]?.code, 'UNKNOWN_BUNDLE');
    scene.registryFails = true;
    scene.give([unitAssignmentOf(unitSpecOf('later', { bundle: scene.bundle('quick') }))]);
    scene.pass(60_000);
    assert.equal(scene.ends('later')[0]?.status, 'returned');
    assert.equal(scene.worker.coreCounts().free, 2);
  });

  test('one that keeps runs is given short ones ahead, and what it had not begun survives its death', () => {
    const scene = new WorkerScene({ cores: 1, ahead: 4 });
    const bundle = scene.bundle('quick');
    const unit = (job: string, behaviour?: string): UnitAssignment =>
      unitAssignmentOf(unitSpecOf(job, { bundle, facts: JSON.stringify({ behaviour }) }), { mayWait: true });
    for (const job of ['a', 'b', 'c']) {
      scene.give([unit(job)]);
      scene.pass(100);
    }
    scene.give([unit('first'), unit('bad', 'dies'), unit('third'), unit('fourth')]);
    assert.deepEqual(scene.worker.coreCounts(), { total: 1, free: 0 });
    scene.pass(1_000);
    const ends = ['first', 'bad', 'third', 'fourth'].map(
      (job) => scene.ends(job)[0]?.code ?? scene.ends(job)[0]?.status,
    );
    assert.deepEqual(ends, ['completed', 'RUNNER_KILLED', 'completed', 'completed']);
    assert.equal(scene.runners.begunBehind, 1);
    for (const [attempt, count] of scene.runners.attemptsBegun) assert.equal(count, 1, attempt);
    assert.deepEqual(scene.worker.coreCounts(), { total: 1, free: 1 });
  });

  test('what waits behind another one can be stopped, and that one goes on', () => {
    const scene = new WorkerScene({ cores: 1, ahead: 4 });
    const bundle = scene.bundle('quick');
    const units = ['first', 'second'].map((job) => {
      const facts = JSON.stringify({ behaviour: job === 'first' ? 'steady' : 'quick' });
      return unitAssignmentOf(unitSpecOf(job, { bundle, facts }), { mayWait: true });
    });
    for (const job of ['a', 'b', 'c']) {
      scene.give([unitAssignmentOf(unitSpecOf(job, { bundle }))]);
      scene.pass(100);
    }
    scene.give(units);
    scene.pass(50);
    const held = scene.stop(units.slice(1));
    scene.pass(50);
    assert.notEqual(held.outcome, undefined);
    assert.equal(scene.ends('second')[0]?.status, 'cancelled');
    scene.pass(2_000);
    assert.equal(scene.ends('first')[0]?.status, 'completed');
    assert.equal(scene.runners.attemptsBegun.get('second 1'), undefined);
  });
});
