/** The order of the steps of a snapshot. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SnapshotSender } from './snapshot-sender.ts';

const row = { key: 'k', value: new Uint8Array() };

describe('a snapshot sender', () => {
  test('installs a single page at once when no commit is being written', () => {
    const sender = new SnapshotSender(1, 7);
    assert.equal(sender.next(7), 'page');
    assert.equal(sender.pageSent([row], true, 7), true);
  });

  test('installs only after every commit that a page may contain', () => {
    const sender = new SnapshotSender(1, 7);
    assert.equal(sender.pageSent([row], false, 8), false);
    assert.equal(sender.next(7), 'page');
    assert.equal(sender.pageSent([row], true, 9), false, 'commits 8 and 9 may be in it');
    assert.equal(sender.next(7), 'wait');
    assert.equal(sender.next(8), 'commits');
    assert.equal(sender.commitsSent(8), false);
    assert.equal(sender.next(9), 'commits');
    assert.equal(sender.commitsSent(9), true);
    assert.equal(sender.step, 4);
  });

  test('alternates pages and commits, so that neither starves', () => {
    const sender = new SnapshotSender(1, 0);
    const order: string[] = [];
    for (let durable = 1; durable < 7; durable++) {
      const next = sender.next(durable);
      order.push(next);
      if (next === 'page') sender.pageSent([row], false, durable);
      else sender.commitsSent(durable);
    }
    assert.deepEqual(order, ['page', 'commits', 'page', 'commits', 'page', 'commits']);
  });
});
