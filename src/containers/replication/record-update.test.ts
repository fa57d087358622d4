/** Changing a record as its owner: against others who change it too, and a registry that does not always answer. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Outcome, success } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import type { ContainerRecord } from '../../placement/state/container-records.ts';
import { ReplicationTestCluster } from '../../../test/support/containers/replication-cluster.ts';

const fence = fenceOf(1, 1);

function running(seed: string): ReplicationTestCluster {
  const world = new ReplicationTestCluster(seed);
  world.start('a');
  world.start('b');
  world.create(0, ['a']);
  world.until('it is open', () => world.node('a').opened.has(0));
  return world;
}

function amend(
  world: ReplicationTestCluster,
  change: (record: ContainerRecord) => ContainerRecord | undefined,
  under = fence,
  by = 'a',
): Outcome<ContainerRecord>[] {
  const ends: Outcome<ContainerRecord>[] = [];
  world.node(by).host.updateRecord({ pool: world.pool, container: 0 }, under, change, (outcome) => ends.push(outcome));
  assert.equal(ends.length, 0, 'never before the call has returned');
  return ends;
}

function counted(record: ContainerRecord): ContainerRecord {
  return { ...record, failures: record.failures + 1 };
}

function codeOf(ends: readonly Outcome<unknown>[]): string {
  assert.equal(ends.length, 1);
  const [end] = ends;
  return end?.ok === true ? 'ok' : (end?.error.code ?? '');
}

describe('an amendment', () => {
  test('happens once, also beside others', () => {
    const world = running('once');
    const [first, second] = [amend(world, counted), amend(world, counted)];
    world.write(0, (record) => record && { ...record, note: 'the leader was here' });
    world.run(100);
    assert.deepEqual([codeOf(first), codeOf(second)], ['ok', 'ok']);
    assert.deepEqual([world.record()?.failures, world.record()?.note], [2, 'the leader was here']);
  });

  test('knows afterwards what everybody can read, and nothing that was not written', () => {
    const world = running('as written');
    // Of a container that is served it is not written how often it could not be opened before.
    const ends = runTo(
      world,
      amend(world, (record) => ({ ...record, phase: 'serving', failuresBefore: 3 })),
    );
    assert.deepEqual(ends, [success(world.record())]);
    amend(world, (record) => ({ ...record, phase: 'opening', failures: record.failures + 1 }));
    world.run(100);
    const { failures = 0, failuresBefore = 0 } = world.record() ?? {};
    assert.ok(failures > failuresBefore, 'the leader would not see that it failed');
  });

  test('may find that nothing is to be done', () => {
    const world = running('nothing');
    const before = world.registry.keyspace.range({ from: '/', to: '0' }, 10).revision;
    const ends = amend(world, () => undefined);
    world.run(100);
    assert.equal(codeOf(ends), 'ok');
    assert.equal(world.registry.keyspace.range({ from: '/', to: '0' }, 10).revision, before);
  });

  test('ends with FENCED when another owns it, another life does, or nobody', () => {
    const world = running('fenced');
    assert.equal(codeOf(runTo(world, amend(world, counted, fence, 'b'))), 'FENCED');
    const hidden = running('hidden');
    hidden.node('a').side.interrupt();
    hidden.give(0, 'b');
    const late = amend(hidden, counted);
    hidden.run(50);
    hidden.node('a').side.resume();
    assert.equal(codeOf(runTo(hidden, late)), 'FENCED');
    assert.equal(hidden.record()?.failures, 0);
    const gone = running('gone');
    gone.write(0, () => undefined);
    assert.equal(codeOf(runTo(gone, amend(gone, counted))), 'FENCED');
  });

  test('goes on trying while the registry has no majority, and ends when its time is over', () => {
    const world = running('majority');
    world.node('a').side.interrupt('NO_QUORUM');
    const ends = amend(world, counted);
    world.run(5_000);
    assert.equal(ends.length, 0);
    world.node('a').side.resume();
    assert.equal(codeOf(runTo(world, ends)), 'ok');
    assert.equal(world.record()?.failures, 1);
    world.node('a').side.interrupt('NO_QUORUM');
    assert.equal(codeOf(runTo(world, amend(world, counted), 11_000)), 'NO_QUORUM');
  });

  test('knows its own hand when only the answer was lost', () => {
    const world = running('answer');
    world.node('a').side.interrupt('DEADLINE', { happens: true });
    const ends = amend(world, counted);
    world.run(1_000);
    assert.equal(world.record()?.failures, 1);
    world.node('a').side.resume();
    assert.equal(codeOf(runTo(world, ends, 11_000)), 'ok');
    assert.equal(world.record()?.failures, 1);
  });
});

function runTo<T>(world: ReplicationTestCluster, ends: T[], msMax = 10_000): T[] {
  world.until('it ends', () => ends.length > 0, msMax);
  return ends;
}
