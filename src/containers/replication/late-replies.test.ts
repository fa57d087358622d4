/** Answers of the registry that come late: what is known from a later one must not be forgotten for them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Done } from '../../base/errors.ts';
import type { RegistryTransaction, TransactionResult, WriteOptions } from '../../base/registry.ts';
import { readContainer } from '../../placement/state/container-records.ts';
import { ReplicationTestCluster, writesOf } from '../../../test/support/containers/replication-cluster.ts';

type Transact = (transaction: RegistryTransaction, options: WriteOptions, done: Done<TransactionResult>) => void;

/** Holds back the answers to what that node writes, as long as `isHeld` says so. Returns how to let them come. */
function holdAnswers(world: ReplicationTestCluster, name: string, isHeld: (note: string) => boolean): () => void {
  const { side } = world.node(name) as unknown as { side: { transact: Transact } };
  const held: (() => void)[] = [];
  const transact: Transact = side.transact.bind(side);
  side.transact = (transaction, options, done) => {
    const [op] = transaction.then;
    const note = op?.kind === 'put' ? (readContainer(op.value)?.note ?? '') : '';
    transact(transaction, options, (outcome) => {
      if (isHeld(note)) held.push(() => done(outcome));
      else done(outcome);
    });
  };
  return () => {
    for (const answer of held.splice(0)) answer();
  };
}

describe('an answer of the registry that is overtaken', () => {
  test('does not let an owner forget whom the record counts on', () => {
    const world = new ReplicationTestCluster('overtaken join');
    for (const name of ['a', 'b']) world.start(name);
    world.create(0, ['a']);
    world.until('it is open', () => world.node('a').opened.has(0));
    const release = holdAnswers(world, 'a', (note) => note === 'late');
    const { host } = world.node('a');
    host.updateRecord(
      { pool: world.pool, container: 0 },
      world.record()?.fence as never,
      (record) => ({ ...record, note: 'late' }),
      () => {},
    );
    world.until('it has happened', () => world.record()?.note === 'late');
    world.write(0, (record) => record && { ...record, note: '', copies: [...record.copies, world.node('b').id] });
    world.until('b has joined', () => world.inSyncNames() === 'ab');
    world.run(100);
    world.cut.add('ab');
    let isAcknowledged = false;
    world
      .node('a')
      .opened.get(0)
      ?.log.commit(writesOf({ k: '1' }), (outcome) => (isAcknowledged = outcome.ok));
    // The request to b is not answered: where b stands is not known any more, but the record names it.
    world.run(1_100);
    world.node('a').side.interrupt('NO_QUORUM');
    release();
    world.run(3_000);
    assert.equal(world.inSyncNames(), 'ab');
    assert.ok(!isAcknowledged, 'b is in sync by the record, and has not got it');
  });

  test('does not let an owner forget whom it is to give a copy', () => {
    const world = new ReplicationTestCluster('overtaken copy');
    for (const name of ['a', 'b']) world.start(name);
    world.create(0, ['a']);
    world.until('it is open', () => world.node('a').opened.has(0));
    world.cut.add('ab');
    const release = holdAnswers(world, 'a', (note) => note === 'late');
    world.node('a').host.updateRecord(
      { pool: world.pool, container: 0 },
      world.record()?.fence as never,
      (record) => ({ ...record, note: 'late' }),
      () => {},
    );
    world.until('it has happened', () => world.record()?.note === 'late');
    world.write(0, (record) => record && { ...record, note: '', copies: [...record.copies, world.node('b').id] });
    world.run(100);
    release();
    world.cut.clear();
    world.until('b has joined', () => world.inSyncNames() === 'ab', 20_000);
  });
});
