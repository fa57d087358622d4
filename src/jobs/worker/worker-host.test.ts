import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { jobLimits } from '../limits.ts';
import { WorkerScene, unitAssignmentOf, unitSpecOf } from '../../../test/support/jobs/worker-harness.ts';

describe('a worker and its units', () => {
  test('runs what it is given, and tells the end until it is heard', () => {
    const scene = new WorkerScene();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('quick') }));
    assert.deepEqual(scene.give([unit]), [undefined]);
    assert.deepEqual(scene.worker.coreCounts(), { total: 2, free: 1 });
    scene.answerNews = false;
    scene.pass(100);
    assert.deepEqual(scene.worker.coreCounts(), { total: 2, free: 2 });
    const [end] = scene.ends('j1');
    assert.equal(end?.status, 'completed');
    assert.equal(new TextDecoder().decode(end?.output), '"done"');
    scene.answerNews = true;
    scene.pass(10_000);
    const count = scene.told.length;
    assert.ok(count >= 2, 'told again');
    scene.pass(10_000);
    assert.equal(scene.told.length, count, 'heard');
  });

  test('given twice it runs once, also when it is over', () => {
    const scene = new WorkerScene();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('quick') }));
    assert.deepEqual(scene.give([unit, unit]), [undefined, undefined]);
    scene.pass(1_000);
    assert.deepEqual(scene.give([unit]), [undefined]);
    scene.pass(1_000);
    assert.equal(scene.runners.begun.get('j1'), 1);
    assert.equal(scene.ends('j1').length, 1);
  });

  test('a unit without a free core is refused, unless it was given ahead', () => {
    const scene = new WorkerScene({ cores: 1 });
    const bundle = scene.bundle('quick');
    const [first, second, third] = ['a', 'b', 'c'].map((job) => unitAssignmentOf(unitSpecOf(job, { bundle })));
    assert.ok(first && second && third);
    assert.deepEqual(scene.give([first, second, { ...third, mayWait: true }]), [undefined, 'CAPACITY', undefined]);
    scene.pass(300);
    assert.equal(scene.ends('a')[0]?.status, 'completed');
    assert.equal(scene.ends('c')[0]?.status, 'completed');
    assert.deepEqual(scene.give([second]), ['CANCELLED'], 'somebody else may have it by now');
    assert.deepEqual(scene.give([{ ...second, attempt: 2, fence: 2n }]), [undefined]);
    scene.pass(300);
    assert.equal(scene.ends('b')[0]?.status, 'completed');
    assert.equal(scene.runners.busyMax, 1);
  });

  test('what waits too long for a core goes back', () => {
    const scene = new WorkerScene({ cores: 1 });
    scene.give([unitAssignmentOf(unitSpecOf('long', { bundle: scene.bundle('patient') }))]);
    scene.give([unitAssignmentOf(unitSpecOf('ahead', { bundle: scene.bundle('quick') }), { mayWait: true })]);
    scene.pass(400);
    assert.equal(scene.ends('ahead').length, 0);
    scene.pass(200);
    const [end] = scene.ends('ahead');
    assert.equal(end?.status, 'returned');
    assert.equal(end?.durationMs, undefined, 'it never began');
    assert.equal(scene.runners.begun.get('ahead'), undefined);
  });

  test('the line of those given ahead is bounded', () => {
    const scene = new WorkerScene({ cores: 1 });
    const bundle = scene.bundle('patient');
    const units = Array.from({ length: 136 }, (_, unit) =>
      unitAssignmentOf(unitSpecOf('j', { bundle, unit }), { mayWait: true }),
    );
    const codes = scene.give(units);
    assert.equal(codes.filter((code) => code === undefined).length, 129);
    assert.equal(codes.filter((code) => code === 'CAPACITY').length, 7);
  });

  test('commands of an earlier leader or for another life are refused', () => {
    const scene = new WorkerScene();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('quick') }));
    scene.term = 5;
    scene.give([]);
    for (const changed of [{ term: 4 }, { generation: 2 }]) {
      const outcome = scene.giveRaw([unit], changed);
      assert.equal(outcome.ok ? '' : outcome.error.code, 'FENCED');
    }
    scene.term = 4;
    assert.equal((scene.stop([unit]).outcome as { ok: boolean }).ok, false);
  });

  test('a later attempt ends the earlier one, an earlier one does not begin any more', () => {
    const scene = new WorkerScene();
    const order = unitSpecOf('j1', { bundle: scene.bundle('deaf') });
    scene.give([unitAssignmentOf(order)]);
    scene.pass(100);
    assert.deepEqual(scene.give([unitAssignmentOf(order, { attempt: 2, fence: 2n })]), [undefined]);
    scene.pass(100);
    assert.deepEqual(
      scene.ends('j1').map(({ attempt, status }) => [attempt, status]),
      [[1, 'cancelled']],
    );
    assert.deepEqual(scene.give([unitAssignmentOf(order, { attempt: 1, fence: 1n })]), ['FENCED']);
    assert.equal(scene.worker.runningUnits(), 1);
  });

  test('what cannot be read is refused, and so is the order of another unit', () => {
    const scene = new WorkerScene();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('quick') }));
    assert.deepEqual(
      scene.give([
        { ...unit, spec: new Uint8Array([1, 2, 3]) },
        { ...unit, job: 'j2' },
      ]),
      ['MALFORMED', 'MALFORMED'],
    );
    assert.equal(scene.worker.coreCounts().free, 2);
  });

  test('a unit that takes too long is ended', () => {
    const scene = new WorkerScene();
    scene.give([unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('deaf'), timeoutMs: 500 }))]);
    scene.pass(1_000);
    assert.equal(scene.worker.coreCounts().free, 1, 'it has a moment to heed the stop');
    scene.pass(2_000);
    assert.equal(scene.ends('j1')[0]?.code, 'WORKFLOW_TIMEOUT');
    assert.equal(scene.worker.coreCounts().free, 2);
  });
});

describe('stopping units', () => {
  for (const [behaviour, waitMs] of [
    ['patient', 100],
    ['deaf', 2_100],
  ] as const) {
    test(`one that is ${behaviour} is over when the stop is answered`, () => {
      const scene = new WorkerScene();
      const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle(behaviour) }));
      scene.give([unit]);
      scene.pass(100);
      const held = scene.stop([unit]);
      assert.equal(held.outcome, undefined);
      scene.pass(waitMs);
      assert.deepEqual(held.outcome, { ok: true, value: { kind: 'stopUnitsReply' } });
      assert.equal(scene.runners.busy, 0);
      assert.equal(scene.ends('j1')[0]?.status, 'cancelled');
    });
  }

  test('a stop that comes before the unit keeps it from beginning', () => {
    const scene = new WorkerScene();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('quick') }));
    assert.notEqual(scene.stop([unit]).outcome, undefined, 'answered at once');
    assert.deepEqual(scene.give([unit]), ['CANCELLED']);
    assert.deepEqual(scene.give([{ ...unit, attempt: 2, fence: 2n }]), [undefined]);
  });

  test('what waits for a core or for its code ends at once', () => {
    const scene = new WorkerScene({ cores: 1 });
    scene.registryFails = true;
    const units = ['a', 'b'].map((job) =>
      unitAssignmentOf(unitSpecOf(job, { bundle: scene.bundle('quick') }), { mayWait: true }),
    );
    scene.give(units);
    assert.notEqual(scene.stop(units).outcome, undefined);
    scene.pass(100);
    assert.equal(scene.ends('a')[0]?.status, 'cancelled');
    assert.equal(scene.ends('b')[0]?.status, 'cancelled');
    assert.equal(scene.runners.begun.size, 0);
    scene.pass(60_000);
    assert.equal(scene.worker.coreCounts().free, 1);
  });
});

describe('the lease of a worker', () => {
  test('reports at once to each leader, and again before the lease is over', () => {
    const scene = new WorkerScene();
    const first = scene.reports.length;
    assert.ok(first >= 1);
    scene.pass(10_000);
    assert.ok(scene.reports.length >= first + 4);
    const before = scene.reports.length;
    scene.worker.leaderChanged();
    scene.pass(200);
    assert.equal(scene.reports.length, before + 1);
  });

  test('a report names what runs and what was not heard', () => {
    const scene = new WorkerScene();
    scene.answerNews = false;
    scene.give([unitAssignmentOf(unitSpecOf('runs', { bundle: scene.bundle('patient') }))]);
    scene.give([unitAssignmentOf(unitSpecOf('ended', { bundle: scene.bundle('quick') }))]);
    scene.pass(3_000);
    const report = scene.reports.at(-1);
    assert.deepEqual(report?.attempts.map(({ job }) => job).toSorted(), ['ended', 'runs']);
  });

  test('without a leader everything ends before the leader gives it to others', () => {
    const scene = new WorkerScene();
    scene.give([unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('deaf') }))]);
    scene.pass(3_000);
    scene.answerReports = false;
    const lastGrantMs = scene.timeline.nowMs;
    scene.pass(7_000);
    assert.equal(scene.give([unitAssignmentOf(unitSpecOf('j2', { bundle: scene.bundle('quick') }))])[0], 'CAPACITY');
    scene.pass(lastGrantMs + 1.05 * scene.leaseMs - scene.timeline.nowMs);
    assert.equal(scene.runners.busy, 0);
    assert.equal(scene.ends('j1')[0]?.status, 'returned');
    assert.equal(scene.worker.coreCounts().free, 2);
    scene.answerReports = true;
    scene.worker.leaderChanged();
    scene.pass(1_000);
    const next = { attempt: 2, fence: 2n };
    assert.equal(
      scene.give([unitAssignmentOf(unitSpecOf('j2', { bundle: scene.bundle('quick') }), next)])[0],
      undefined,
    );
  });

  test('the leader names what is superseded, and that ends', () => {
    const scene = new WorkerScene();
    const unit = unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('deaf') }));
    scene.give([unit]);
    scene.pass(100);
    scene.stopNames = [unit];
    scene.pass(3_000);
    assert.equal(scene.worker.runningUnits(), 0);
  });

  test('ends are told to the next leader too', () => {
    const scene = new WorkerScene();
    scene.answerNews = false;
    scene.give([unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('quick') }))]);
    scene.pass(500);
    scene.leader = undefined;
    scene.worker.leaderChanged();
    scene.pass(20_000);
    const before = scene.told.length;
    scene.leader = { id: scene.worker as never, host: '10.0.0.8', port: 7400 };
    scene.answerNews = true;
    scene.worker.leaderChanged();
    scene.pass(100);
    assert.equal(scene.told.length, before + 1);
  });
});

describe('what a worker tells', () => {
  test('of progress the latest, every 100 ms at most', () => {
    const scene = new WorkerScene();
    scene.give([unitAssignmentOf(unitSpecOf('j1', { bundle: scene.bundle('steady') }))]);
    scene.pass(2_000);
    const progress = scene.told.filter(({ status }) => status === 'progress');
    assert.ok(progress.length >= 5 && progress.length <= 11, `${progress.length} messages`);
    const counts = progress.map(({ completed }) => completed);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
    );
    assert.equal(scene.ends('j1')[0]?.status, 'completed');
  });

  test('with too many ends that nobody heard it takes nothing new', () => {
    const scene = new WorkerScene({ cores: 32 });
    scene.answerNews = false;
    const bundle = scene.bundle('quick');
    let refused = 0;
    for (let round = 0; round < 60; round++) {
      const units = Array.from({ length: 32 }, (_, unit) =>
        unitAssignmentOf(unitSpecOf(`j${round}`, { bundle, unit })),
      );
      refused += scene.give(units).filter((code) => code === 'CAPACITY').length;
      scene.pass(100);
    }
    assert.ok(refused > 0);
    assert.ok((scene.reports.at(-1)?.attempts.length ?? 0) <= 1_024);
    scene.answerNews = true;
    scene.pass(20_000);
    assert.deepEqual(scene.give([unitAssignmentOf(unitSpecOf('after', { bundle }))]), [undefined]);
    assert.ok(jobLimits.unitsInMessageMax <= 1_024);
  });
});

describe('the end of a worker', () => {
  test('draining takes nothing new, gives back what waits, and ends what runs', () => {
    const scene = new WorkerScene({ cores: 1 });
    const bundle = scene.bundle('steady');
    scene.give(['a', 'b'].map((job) => unitAssignmentOf(unitSpecOf(job, { bundle }), { mayWait: true })));
    scene.pass(100);
    scene.worker.setDraining(true);
    let isIdle = false;
    scene.worker.whenIdle(() => {
      isIdle = true;
    });
    assert.deepEqual(scene.give([unitAssignmentOf(unitSpecOf('c', { bundle }))]), ['DRAINED']);
    scene.pass(100);
    assert.equal(scene.ends('b')[0]?.status, 'returned');
    assert.equal(scene.reports.at(-1)?.draining, true);
    assert.equal(isIdle, false);
    scene.pass(3_000);
    assert.equal(scene.ends('a')[0]?.status, 'completed');
    assert.ok(isIdle);
    scene.worker.setDraining(false);
    scene.pass(100);
    assert.deepEqual(scene.give([unitAssignmentOf(unitSpecOf('c', { bundle }), { attempt: 2, fence: 2n })]), [
      undefined,
    ]);
  });

  for (const hears of [true, false]) {
    test(`stopping gives back what runs and leaves no process, ${hears ? 'heard' : 'unheard'}`, () => {
      const scene = new WorkerScene();
      scene.give([unitAssignmentOf(unitSpecOf('a', { bundle: scene.bundle('deaf') }))]);
      scene.give([unitAssignmentOf(unitSpecOf('b', { bundle: scene.bundle('patient') }))]);
      scene.pass(100);
      scene.answerNews = hears;
      let isOver = false;
      scene.worker.stop(() => {
        isOver = true;
      });
      assert.deepEqual(scene.give([unitAssignmentOf(unitSpecOf('c', { bundle: scene.bundle('quick') }))]), ['DRAINED']);
      scene.pass(1_500);
      assert.ok(isOver);
      assert.equal(scene.runners.alive, 0);
      assert.equal(scene.ends('a')[0]?.status, 'returned');
      assert.equal(scene.ends('b')[0]?.status, 'returned');
      scene.pass(60_000);
      assert.equal(scene.runners.alive, 0, 'nothing is started any more');
    });
  }
});
