import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { jobLimits } from '../limits.ts';
import { WorkerTestBed, unitAssignmentOf, unitSpecOf } from '../../../test/support/jobs/worker-harness.ts';

describe('a worker', () => {
  test('runs a unit and reports its end until it is acknowledged', () => {
    const bed = new WorkerTestBed();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('quick') }));
    assert.deepEqual(bed.assign([unit]), [undefined]);
    assert.deepEqual(bed.worker.coreCounts(), { total: 2, free: 1 });
    bed.acknowledgesReports = false;
    bed.pass(100);
    assert.deepEqual(bed.worker.coreCounts(), { total: 2, free: 2 });
    const [end] = bed.ends('j1');
    assert.equal(end?.status, 'completed');
    assert.equal(new TextDecoder().decode(end?.output), '"done"');
    bed.acknowledgesReports = true;
    bed.pass(10_000);
    const count = bed.unitReports.length;
    assert.ok(count >= 2, 'the end was resent');
    bed.pass(10_000);
    assert.equal(bed.unitReports.length, count, 'the end was acknowledged');
  });

  test('runs a unit once that is assigned twice, also after its end', () => {
    const bed = new WorkerTestBed();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('quick') }));
    assert.deepEqual(bed.assign([unit, unit]), [undefined, undefined]);
    bed.pass(1_000);
    assert.deepEqual(bed.assign([unit]), [undefined]);
    bed.pass(1_000);
    assert.equal(bed.runners.startsByJob.get('j1'), 1);
    assert.equal(bed.ends('j1').length, 1);
  });

  test('refuses a unit without a free core unless the unit may wait', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    const bundle = bed.bundle('quick');
    const [first, second, third] = ['a', 'b', 'c'].map((job) => unitAssignmentOf(unitSpecOf(job, { bundle })));
    assert.ok(first && second && third);
    assert.deepEqual(bed.assign([first, second, { ...third, mayWait: true }]), [undefined, 'CAPACITY', undefined]);
    bed.pass(300);
    assert.equal(bed.ends('a')[0]?.status, 'completed');
    assert.equal(bed.ends('c')[0]?.status, 'completed');
    assert.deepEqual(bed.assign([second]), ['CANCELLED'], 'another worker may have it by now');
    assert.deepEqual(bed.assign([{ ...second, attempt: 2, fence: 2n }]), [undefined]);
    bed.pass(300);
    assert.equal(bed.ends('b')[0]?.status, 'completed');
    assert.equal(bed.runners.busyMax, 1);
  });

  test('returns a unit that waits too long for a core', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    bed.assign([unitAssignmentOf(unitSpecOf('long', { bundle: bed.bundle('runsUntilStopped') }))]);
    bed.assign([unitAssignmentOf(unitSpecOf('waits', { bundle: bed.bundle('quick') }), { mayWait: true })]);
    bed.pass(400);
    assert.equal(bed.ends('waits').length, 0);
    bed.pass(200);
    const [end] = bed.ends('waits');
    assert.equal(end?.status, 'returned');
    assert.equal(end?.durationMs, undefined, 'it never started');
    assert.equal(bed.runners.startsByJob.get('waits'), undefined);
  });

  test('bounds the queue of units that wait for a core', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    const bundle = bed.bundle('runsUntilStopped');
    const units = Array.from({ length: 136 }, (_, unit) =>
      unitAssignmentOf(unitSpecOf('j', { bundle, unit }), { mayWait: true }),
    );
    const codes = bed.assign(units);
    assert.equal(codes.filter((code) => code === undefined).length, 129);
    assert.equal(codes.filter((code) => code === 'CAPACITY').length, 7);
  });

  test('rejects messages of an earlier leader or for another generation', () => {
    const bed = new WorkerTestBed();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('quick') }));
    bed.term = 5;
    bed.assign([]);
    for (const changed of [{ term: 4 }, { generation: 2 }]) {
      const outcome = bed.assignUnits([unit], changed);
      assert.equal(outcome.ok ? '' : outcome.error.code, 'FENCED');
    }
    bed.term = 4;
    assert.equal((bed.stop([unit]).outcome as { ok: boolean }).ok, false);
  });

  test('stops the earlier attempt of a unit for a later one, and rejects a stale one', () => {
    const bed = new WorkerTestBed();
    const order = unitSpecOf('j1', { bundle: bed.bundle('ignoresStop') });
    bed.assign([unitAssignmentOf(order)]);
    bed.pass(100);
    assert.deepEqual(bed.assign([unitAssignmentOf(order, { attempt: 2, fence: 2n })]), [undefined]);
    bed.pass(100);
    assert.deepEqual(
      bed.ends('j1').map(({ attempt, status }) => [attempt, status]),
      [[1, 'cancelled']],
    );
    assert.deepEqual(bed.assign([unitAssignmentOf(order, { attempt: 1, fence: 1n })]), ['FENCED']);
    assert.equal(bed.worker.runningUnits(), 1);
  });

  test('rejects a spec that cannot be decoded or belongs to another unit', () => {
    const bed = new WorkerTestBed();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('quick') }));
    assert.deepEqual(
      bed.assign([
        { ...unit, spec: new Uint8Array([1, 2, 3]) },
        { ...unit, job: 'j2' },
      ]),
      ['MALFORMED', 'MALFORMED'],
    );
    assert.equal(bed.worker.coreCounts().free, 2);
  });

  test('ends a unit that exceeds its timeout', () => {
    const bed = new WorkerTestBed();
    bed.assign([unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('ignoresStop'), timeoutMs: 500 }))]);
    bed.pass(1_000);
    assert.equal(bed.worker.coreCounts().free, 1, 'the code has a grace period to stop');
    bed.pass(2_000);
    assert.equal(bed.ends('j1')[0]?.code, 'WORKFLOW_TIMEOUT');
    assert.equal(bed.worker.coreCounts().free, 2);
  });
});

describe('the stop of a unit', () => {
  for (const [behaviour, waitMs] of [
    ['runsUntilStopped', 100],
    ['ignoresStop', 2_100],
  ] as const) {
    test(`is acknowledged when a unit that ${behaviour} has ended`, () => {
      const bed = new WorkerTestBed();
      const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle(behaviour) }));
      bed.assign([unit]);
      bed.pass(100);
      const held = bed.stop([unit]);
      assert.equal(held.outcome, undefined);
      bed.pass(waitMs);
      assert.deepEqual(held.outcome, { ok: true, value: { kind: 'stopUnitsReply' } });
      assert.equal(bed.runners.busy, 0);
      assert.equal(bed.ends('j1')[0]?.status, 'cancelled');
    });
  }

  test('prevents the start of a unit that arrives later', () => {
    const bed = new WorkerTestBed();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('quick') }));
    assert.notEqual(bed.stop([unit]).outcome, undefined, 'acknowledged at once');
    assert.deepEqual(bed.assign([unit]), ['CANCELLED']);
    assert.deepEqual(bed.assign([{ ...unit, attempt: 2, fence: 2n }]), [undefined]);
  });

  test('ends a unit at once that waits for a core or its code', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    bed.registryFails = true;
    const units = ['a', 'b'].map((job) =>
      unitAssignmentOf(unitSpecOf(job, { bundle: bed.bundle('quick') }), { mayWait: true }),
    );
    bed.assign(units);
    assert.notEqual(bed.stop(units).outcome, undefined);
    bed.pass(100);
    assert.equal(bed.ends('a')[0]?.status, 'cancelled');
    assert.equal(bed.ends('b')[0]?.status, 'cancelled');
    assert.equal(bed.runners.startsByJob.size, 0);
    bed.pass(60_000);
    assert.equal(bed.worker.coreCounts().free, 1);
  });
});

describe('the lease of a worker', () => {
  test('is requested at once from each leader, and renewed before it expires', () => {
    const bed = new WorkerTestBed();
    const first = bed.heartbeats.length;
    assert.ok(first >= 1);
    bed.pass(10_000);
    assert.ok(bed.heartbeats.length >= first + 4);
    const before = bed.heartbeats.length;
    bed.worker.leaderChanged();
    bed.pass(200);
    assert.equal(bed.heartbeats.length, before + 1);
  });

  test('is renewed by heartbeats that list running attempts and unacknowledged ends', () => {
    const bed = new WorkerTestBed();
    bed.acknowledgesReports = false;
    bed.assign([unitAssignmentOf(unitSpecOf('runs', { bundle: bed.bundle('runsUntilStopped') }))]);
    bed.assign([unitAssignmentOf(unitSpecOf('ended', { bundle: bed.bundle('quick') }))]);
    bed.pass(3_000);
    const report = bed.heartbeats.at(-1);
    assert.deepEqual(report?.attempts.map(({ job }) => job).toSorted(), ['ended', 'runs']);
  });

  test('expires without a leader, and every unit ends before the leader reassigns it', () => {
    const bed = new WorkerTestBed();
    bed.assign([unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('ignoresStop') }))]);
    bed.pass(3_000);
    bed.answersHeartbeats = false;
    const lastGrantMs = bed.timeline.nowMs;
    bed.pass(7_000);
    assert.equal(bed.assign([unitAssignmentOf(unitSpecOf('j2', { bundle: bed.bundle('quick') }))])[0], 'CAPACITY');
    bed.pass(lastGrantMs + 1.05 * bed.leaseMs - bed.timeline.nowMs);
    assert.equal(bed.runners.busy, 0);
    assert.equal(bed.ends('j1')[0]?.status, 'returned');
    assert.equal(bed.worker.coreCounts().free, 2);
    bed.answersHeartbeats = true;
    bed.worker.leaderChanged();
    bed.pass(1_000);
    const next = { attempt: 2, fence: 2n };
    assert.equal(bed.assign([unitAssignmentOf(unitSpecOf('j2', { bundle: bed.bundle('quick') }), next)])[0], undefined);
  });

  test('is renewed by replies that name superseded attempts, which the worker stops', () => {
    const bed = new WorkerTestBed();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('ignoresStop') }));
    bed.assign([unit]);
    bed.pass(100);
    bed.supersededIds = [unit];
    bed.pass(3_000);
    assert.equal(bed.worker.runningUnits(), 0);
  });

  test('does not hold back ends: a new leader gets them at once', () => {
    const bed = new WorkerTestBed();
    bed.acknowledgesReports = false;
    bed.assign([unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('quick') }))]);
    bed.pass(500);
    bed.leader = undefined;
    bed.worker.leaderChanged();
    bed.pass(20_000);
    const before = bed.unitReports.length;
    bed.leader = { id: bed.worker as never, host: '10.0.0.8', port: 7400 };
    bed.acknowledgesReports = true;
    bed.worker.leaderChanged();
    bed.pass(100);
    assert.equal(bed.unitReports.length, before + 1);
  });
});

describe('the reports of a worker', () => {
  test('contain the latest progress, at most every 100 ms', () => {
    const bed = new WorkerTestBed();
    bed.assign([unitAssignmentOf(unitSpecOf('j1', { bundle: bed.bundle('reportsProgress') }))]);
    bed.pass(2_000);
    const progress = bed.unitReports.filter(({ status }) => status === 'progress');
    assert.ok(progress.length >= 5 && progress.length <= 11, `${progress.length} messages`);
    const counts = progress.map(({ completed }) => completed);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
    );
    assert.equal(bed.ends('j1')[0]?.status, 'completed');
  });

  test('block new units while too many ends are unacknowledged', () => {
    const bed = new WorkerTestBed({ cores: 32 });
    bed.acknowledgesReports = false;
    const bundle = bed.bundle('quick');
    let refused = 0;
    for (let round = 0; round < 60; round++) {
      const units = Array.from({ length: 32 }, (_, unit) =>
        unitAssignmentOf(unitSpecOf(`j${round}`, { bundle, unit })),
      );
      refused += bed.assign(units).filter((code) => code === 'CAPACITY').length;
      bed.pass(100);
    }
    assert.ok(refused > 0);
    assert.ok((bed.heartbeats.at(-1)?.attempts.length ?? 0) <= 1_024);
    bed.acknowledgesReports = true;
    bed.pass(20_000);
    assert.deepEqual(bed.assign([unitAssignmentOf(unitSpecOf('after', { bundle }))]), [undefined]);
    assert.ok(jobLimits.unitsInMessageMax <= 1_024);
  });
});

describe('a worker that ends', () => {
  test('refuses new units while it drains, returns those that wait and completes those that run', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    const bundle = bed.bundle('reportsProgress');
    bed.assign(['a', 'b'].map((job) => unitAssignmentOf(unitSpecOf(job, { bundle }), { mayWait: true })));
    bed.pass(100);
    bed.worker.setDraining(true);
    let isIdle = false;
    bed.worker.whenIdle(() => {
      isIdle = true;
    });
    assert.deepEqual(bed.assign([unitAssignmentOf(unitSpecOf('c', { bundle }))]), ['DRAINED']);
    bed.pass(100);
    assert.equal(bed.ends('b')[0]?.status, 'returned');
    assert.equal(bed.heartbeats.at(-1)?.draining, true);
    assert.equal(isIdle, false);
    bed.pass(3_000);
    assert.equal(bed.ends('a')[0]?.status, 'completed');
    assert.ok(isIdle);
    bed.worker.setDraining(false);
    bed.pass(100);
    assert.deepEqual(bed.assign([unitAssignmentOf(unitSpecOf('c', { bundle }), { attempt: 2, fence: 2n })]), [
      undefined,
    ]);
  });

  test('refuses new units before it stops, and completes those that run', () => {
    const bed = new WorkerTestBed({ cores: 1 });
    const bundle = bed.bundle('reportsProgress');
    bed.assign(['a', 'b'].map((job) => unitAssignmentOf(unitSpecOf(job, { bundle }), { mayWait: true })));
    bed.pass(100);
    bed.worker.refuseUnits();
    assert.deepEqual(bed.assign([unitAssignmentOf(unitSpecOf('c', { bundle }))]), ['DRAINED']);
    bed.pass(100);
    assert.equal(bed.ends('b')[0]?.status, 'returned');
    assert.equal(bed.heartbeats.at(-1)?.draining, true);
    assert.equal(bed.worker.isIdle, false);
    // A change of the mode of the node does not bring the units back.
    bed.worker.setDraining(false);
    assert.deepEqual(bed.assign([unitAssignmentOf(unitSpecOf('d', { bundle }))]), ['DRAINED']);
    bed.pass(3_000);
    assert.equal(bed.ends('a')[0]?.status, 'completed');
    assert.ok(bed.worker.isIdle);
  });

  for (const acknowledges of [true, false]) {
    test(`returns running units and leaves no process, ${acknowledges ? 'with' : 'without'} acknowledgements`, () => {
      const bed = new WorkerTestBed();
      bed.assign([unitAssignmentOf(unitSpecOf('a', { bundle: bed.bundle('ignoresStop') }))]);
      bed.assign([unitAssignmentOf(unitSpecOf('b', { bundle: bed.bundle('runsUntilStopped') }))]);
      bed.pass(100);
      bed.acknowledgesReports = acknowledges;
      let isOver = false;
      bed.worker.stop(() => {
        isOver = true;
      });
      assert.deepEqual(bed.assign([unitAssignmentOf(unitSpecOf('c', { bundle: bed.bundle('quick') }))]), ['DRAINED']);
      bed.pass(1_500);
      assert.ok(isOver);
      assert.equal(bed.runners.alive, 0);
      assert.equal(bed.ends('a')[0]?.status, 'returned');
      assert.equal(bed.ends('b')[0]?.status, 'returned');
      bed.pass(60_000);
      assert.equal(bed.runners.alive, 0, 'no runner is started after the stop');
    });
  }
});
