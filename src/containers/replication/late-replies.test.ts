/** Replies of the registry that arrive late: an owner keeps what it has learned from a newer one. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Done } from '../../base/errors.ts';
import type { RegistryTransaction, TransactionResult, WriteOptions } from '../../base/registry.ts';
import { readContainer } from '../../placement/state/container-records.ts';
import { ReplicationTestCluster, writesOf } from '../../../test/support/containers/replication-cluster.ts';

type Transact = (transaction: RegistryTransaction, options: WriteOptions, done: Done<TransactionResult>) => void;

/**
 * Delays the replies to transactions of that node whose note `isDelayed` selects. Returns a function that delivers
 * them.
 */
function delayReplies(cluster: ReplicationTestCluster, name: string, isDelayed: (note: string) => boolean): () => void {
  const { registry } = cluster.node(name) as unknown as { registry: { transact: Transact } };
  const delayed: (() => void)[] = [];
  const transact: Transact = registry.transact.bind(registry);
  registry.transact = (transaction, options, done) => {
    const [op] = transaction.then;
    const note = op?.kind === 'put' ? (readContainer(op.value)?.note ?? '') : '';
    transact(transaction, options, (outcome) => {
      if (isDelayed(note)) delayed.push(() => done(outcome));
      else done(outcome);
    });
  };
  return () => {
    for (const deliver of delayed.splice(0)) deliver();
  };
}

describe('a late reply of the registry', () => {
  test('does not remove a replica from the ISR that the owner knows', () => {
    const cluster = new ReplicationTestCluster('overtaken join');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.create(0, ['a']);
    cluster.until('it is open', () => cluster.node('a').opened.has(0));
    const release = delayReplies(cluster, 'a', (note) => note === 'late');
    const { host } = cluster.node('a');
    host.updateRecord(
      { pool: cluster.pool, container: 0 },
      cluster.record()?.fence as never,
      (record) => ({ ...record, note: 'late' }),
      () => {},
    );
    cluster.until('the record is written', () => cluster.record()?.note === 'late');
    cluster.write(0, (record) => record && { ...record, note: '', copies: [...record.copies, cluster.node('b').id] });
    cluster.until('b has joined', () => cluster.inSyncNames() === 'ab');
    cluster.run(100);
    cluster.cut.add('ab');
    let isAcknowledged = false;
    cluster
      .node('a')
      .opened.get(0)
      ?.log.commit(writesOf({ k: '1' }), (outcome) => (isAcknowledged = outcome.ok));
    // b does not reply, so its position is unknown; but the record names it in the ISR.
    cluster.run(1_100);
    cluster.node('a').registry.interrupt('NO_QUORUM');
    release();
    cluster.run(3_000);
    assert.equal(cluster.inSyncNames(), 'ab');
    assert.ok(!isAcknowledged, 'the record names b in the ISR, and b lacks the commit');
  });

  test('does not remove a replica that the owner has to feed', () => {
    const cluster = new ReplicationTestCluster('overtaken copy');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.create(0, ['a']);
    cluster.until('it is open', () => cluster.node('a').opened.has(0));
    cluster.cut.add('ab');
    const release = delayReplies(cluster, 'a', (note) => note === 'late');
    cluster.node('a').host.updateRecord(
      { pool: cluster.pool, container: 0 },
      cluster.record()?.fence as never,
      (record) => ({ ...record, note: 'late' }),
      () => {},
    );
    cluster.until('the record is written', () => cluster.record()?.note === 'late');
    cluster.write(0, (record) => record && { ...record, note: '', copies: [...record.copies, cluster.node('b').id] });
    cluster.run(100);
    release();
    cluster.cut.clear();
    cluster.until('b has joined', () => cluster.inSyncNames() === 'ab', 20_000);
  });
});
