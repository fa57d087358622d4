import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { UnitAssignment } from '../../messages/jobs.ts';
import { WorkerTestBed, unitAssignmentOf, unitSpecOf } from '../../../test/support/jobs/worker-harness.ts';

describe('the runner pool of a worker', () => {
  for (const [behaviour, status, code] of [
    ['dies', 'failed', 'RUNNER_KILLED'],
    ['fails', 'failed', 'WORKFLOW_FAILED'],
    ['sendsGarbage', 'failed', 'RUNNER_KILLED'],
    ['namesUnknownRun', 'failed', 'RUNNER_KILLED'],
  ] as const) {
    test(`replaces a runner that ${behaviour}, and its core is free again`, () => {
      const bed = new WorkerTestBed({ cores: 1 });
      bed.assign([unitAssignmentOf(unitSpecOf('bad', { bundle: bed.bundle(behaviour) }))]);
      bed.pass(1_000);
      assert.deepEqual(
        bed.ends('bad').map((end) => [end.status, end.code]),
        [[status, code]],
      );
      assert.equal(bed.worker.coreCounts().free, 1);
      bed.assign([unitAssignmentOf(unitSpecOf('good', { bundle: bed.bundle('quick') }))]);
      bed.pass(1_000);
      assert.equal(bed.ends('good')[0]?.status, 'completed');
    });
  }

  test('reuses a runner for the same code, submitter and limits, and for nothing else', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    const bundle = bed.bundle('quick');
    const run = (job: string, changed = {}): number => {
      const before = bed.runners.codeSent;
      bed.assign([unitAssignmentOf(unitSpecOf(job, { bundle, ...changed }))]);
      bed.pass(200);
      assert.equal(bed.ends(job)[0]?.status, 'completed');
      return bed.runners.codeSent - before;
    };
    assert.equal(run('first'), 1);
    assert.equal(run('same'), 0);
    assert.equal(run('submitter', { submitter: 'other' }), 1);
    assert.equal(run('network', { network: true }), 1);
    assert.equal(run('memory', { memoryMb: 512 }), 1);
    assert.equal(run('code', { bundle: bed.bundle('quick', 'other') }), 1);
    assert.ok(bed.runners.alive <= 4);
  });

  test('does not reuse a runner whose code still runs after its end', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    const bundle = bed.bundle('taintsRunner');
    for (const job of ['first', 'second']) {
      bed.assign([unitAssignmentOf(unitSpecOf(job, { bundle }))]);
      bed.pass(1_000);
      assert.equal(bed.ends(job)[0]?.status, 'completed');
      assert.equal(bed.worker.coreCounts().free, 1);
    }
    assert.equal(bed.runners.codeSent, 2);
  });

  test('backs off when runners cannot start, and fails their units with the reason', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    bed.runners.failing = true;
    bed.assign([unitAssignmentOf(unitSpecOf('first', { bundle: bed.bundle('fails') }))]);
    bed.pass(5_000);
    bed.assign([unitAssignmentOf(unitSpecOf('second', { bundle: bed.bundle('quick', '2') }))]);
    bed.pass(10_000);
    assert.equal(bed.ends('second')[0]?.code, 'RUNNER_KILLED');
    assert.match(bed.ends('second')[0]?.message ?? '', /cannot start/);
    const before = bed.runners.started;
    bed.pass(60_000);
    assert.ok(bed.runners.started - before < 12, `${bed.runners.started - before} starts in a minute`);
    bed.runners.failing = false;
    bed.pass(60_000);
    assert.ok(bed.worker.aliveRunners() >= 1);
    assert.equal(bed.worker.coreCounts().free, 1);
  });

  test('fetches a bundle once for all units that wait for it', () => {
    const bed = new WorkerTestBed();
    const bundle = bed.bundle('quick', 'in two parts');
    bed.assign([unitAssignmentOf(unitSpecOf('a', { bundle })), unitAssignmentOf(unitSpecOf('b', { bundle }))]);
    bed.pass(200);
    assert.equal(bed.fetches, 2, 'two parts');
    assert.equal(bed.ends('a')[0]?.status, 'completed');
    assert.equal(bed.ends('b')[0]?.status, 'completed');
    bed.assign([unitAssignmentOf(unitSpecOf('c', { bundle }))]);
    bed.pass(200);
    assert.equal(bed.fetches, 2);
  });

  test('fails a unit whose bundle is not stored, and returns it when the registry does not reply', () => {
    const bed = new WorkerTestBed();
    bed.assign([unitAssignmentOf(unitSpecOf('unknown', { bundle: 'f'.repeat(64) }))]);
    bed.pass(60_000);
    assert.equal(bed.ends('unknown')[0]?.code, 'UNKNOWN_BUNDLE');
    bed.registryFails = true;
    bed.assign([unitAssignmentOf(unitSpecOf('later', { bundle: bed.bundle('quick') }))]);
    bed.pass(60_000);
    assert.equal(bed.ends('later')[0]?.status, 'returned');
    assert.equal(bed.worker.coreCounts().free, 2);
  });

  test('prefetches short units into a busy runner; those that have not started survive its death', () => {
    const bed = new WorkerTestBed({ cores: 1, prefetch: 4 });
    const bundle = bed.bundle('quick');
    const unit = (job: string, behaviour?: string): UnitAssignment =>
      unitAssignmentOf(unitSpecOf(job, { bundle, facts: JSON.stringify({ behaviour }) }), { mayWait: true });
    for (const job of ['a', 'b', 'c']) {
      bed.assign([unit(job)]);
      bed.pass(100);
    }
    bed.assign([unit('first'), unit('bad', 'dies'), unit('third'), unit('fourth')]);
    assert.deepEqual(bed.worker.coreCounts(), { total: 1, free: 0 });
    bed.pass(1_000);
    const ends = ['first', 'bad', 'third', 'fourth'].map((job) => bed.ends(job)[0]?.code ?? bed.ends(job)[0]?.status);
    assert.deepEqual(ends, ['completed', 'RUNNER_KILLED', 'completed', 'completed']);
    assert.equal(bed.runners.prefetchedStarts, 1);
    for (const [attempt, count] of bed.runners.startsByAttempt) assert.equal(count, 1, attempt);
    assert.deepEqual(bed.worker.coreCounts(), { total: 1, free: 1 });
  });

  test('stops a prefetched unit without disturbing the unit that runs', () => {
    const bed = new WorkerTestBed({ cores: 1, prefetch: 4 });
    const bundle = bed.bundle('quick');
    const units = ['first', 'second'].map((job) => {
      const facts = JSON.stringify({ behaviour: job === 'first' ? 'reportsProgress' : 'quick' });
      return unitAssignmentOf(unitSpecOf(job, { bundle, facts }), { mayWait: true });
    });
    for (const job of ['a', 'b', 'c']) {
      bed.assign([unitAssignmentOf(unitSpecOf(job, { bundle }))]);
      bed.pass(100);
    }
    bed.assign(units);
    bed.pass(50);
    const held = bed.stop(units.slice(1));
    bed.pass(50);
    assert.notEqual(held.outcome, undefined);
    assert.equal(bed.ends('second')[0]?.status, 'cancelled');
    bed.pass(2_000);
    assert.equal(bed.ends('first')[0]?.status, 'completed');
    assert.equal(bed.runners.startsByAttempt.get('second 1'), undefined);
  });
});
