/** Record updates by the owner, with concurrent updates and a registry that does not always reply. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Outcome, success } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import type { ContainerRecord } from '../../placement/state/container-records.ts';
import { ReplicationTestCluster } from '../../../test/support/containers/replication-cluster.ts';

const fence = fenceOf(1, 1);

function running(seed: string): ReplicationTestCluster {
  const cluster = new ReplicationTestCluster(seed);
  cluster.start('a');
  cluster.start('b');
  cluster.create(0, ['a']);
  cluster.until('it is open', () => cluster.node('a').opened.has(0));
  return cluster;
}

function updateRecord(
  cluster: ReplicationTestCluster,
  change: (record: ContainerRecord) => ContainerRecord | undefined,
  under = fence,
  by = 'a',
): Outcome<ContainerRecord>[] {
  const outcomes: Outcome<ContainerRecord>[] = [];
  cluster
    .node(by)
    .host.updateRecord({ pool: cluster.pool, container: 0 }, under, change, (outcome) => outcomes.push(outcome));
  assert.equal(outcomes.length, 0, 'never before the call has returned');
  return outcomes;
}

function counted(record: ContainerRecord): ContainerRecord {
  return { ...record, failures: record.failures + 1 };
}

function codeOf(outcomes: readonly Outcome<unknown>[]): string {
  assert.equal(outcomes.length, 1);
  const [end] = outcomes;
  return end?.ok === true ? 'ok' : (end?.error.code ?? '');
}

describe('a record update', () => {
  test('takes effect once, with concurrent updates', () => {
    const cluster = running('once');
    const [first, second] = [updateRecord(cluster, counted), updateRecord(cluster, counted)];
    cluster.write(0, (record) => record && { ...record, note: 'the leader was here' });
    cluster.run(100);
    assert.deepEqual([codeOf(first), codeOf(second)], ['ok', 'ok']);
    assert.deepEqual([cluster.record()?.failures, cluster.record()?.note], [2, 'the leader was here']);
  });

  test('ends with the record as all nodes read it', () => {
    const cluster = running('as written');
    // A record in phase 'serving' does not store `failuresBefore`.
    const outcomes = runTo(
      cluster,
      updateRecord(cluster, (record) => ({ ...record, phase: 'serving', failuresBefore: 3 })),
    );
    assert.deepEqual(outcomes, [success(cluster.record())]);
    updateRecord(cluster, (record) => ({ ...record, phase: 'opening', failures: record.failures + 1 }));
    cluster.run(100);
    const { failures = 0, failuresBefore = 0 } = cluster.record() ?? {};
    assert.ok(failures > failuresBefore, 'the leader would not see that it failed');
  });

  test('may find that nothing is to change', () => {
    const cluster = running('nothing');
    const before = cluster.registry.keyspace.range({ from: '/', to: '0' }, 10).revision;
    const outcomes = updateRecord(cluster, () => undefined);
    cluster.run(100);
    assert.equal(codeOf(outcomes), 'ok');
    assert.equal(cluster.registry.keyspace.range({ from: '/', to: '0' }, 10).revision, before);
  });

  test('ends with FENCED when the record has another owner, another generation of it, or is deleted', () => {
    const cluster = running('fenced');
    assert.equal(codeOf(runTo(cluster, updateRecord(cluster, counted, fence, 'b'))), 'FENCED');
    const hidden = running('hidden');
    hidden.node('a').registry.interrupt();
    hidden.assignOwner(0, 'b');
    const late = updateRecord(hidden, counted);
    hidden.run(50);
    hidden.node('a').registry.resume();
    assert.equal(codeOf(runTo(hidden, late)), 'FENCED');
    assert.equal(hidden.record()?.failures, 0);
    const gone = running('gone');
    gone.write(0, () => undefined);
    assert.equal(codeOf(runTo(gone, updateRecord(gone, counted))), 'FENCED');
  });

  test('retries while the registry has no quorum, and ends at its deadline', () => {
    const cluster = running('majority');
    cluster.node('a').registry.interrupt('NO_QUORUM');
    const outcomes = updateRecord(cluster, counted);
    cluster.run(5_000);
    assert.equal(outcomes.length, 0);
    cluster.node('a').registry.resume();
    assert.equal(codeOf(runTo(cluster, outcomes)), 'ok');
    assert.equal(cluster.record()?.failures, 1);
    cluster.node('a').registry.interrupt('NO_QUORUM');
    assert.equal(codeOf(runTo(cluster, updateRecord(cluster, counted), 11_000)), 'NO_QUORUM');
  });

  test('recognizes its own write when only the reply was lost', () => {
    const cluster = running('answer');
    cluster.node('a').registry.interrupt('DEADLINE', { takesEffect: true });
    const outcomes = updateRecord(cluster, counted);
    cluster.run(1_000);
    assert.equal(cluster.record()?.failures, 1);
    cluster.node('a').registry.resume();
    assert.equal(codeOf(runTo(cluster, outcomes, 11_000)), 'ok');
    assert.equal(cluster.record()?.failures, 1);
  });
});

function runTo<T>(cluster: ReplicationTestCluster, outcomes: T[], msMax = 10_000): T[] {
  cluster.until('it ends', () => outcomes.length > 0, msMax);
  return outcomes;
}
