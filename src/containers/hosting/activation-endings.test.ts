import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { failure } from '../../base/errors.ts';
import type { Context } from '../module.ts';
import { codeOf, opened, settle, valueOf } from '../../../test/support/containers/hosting-harness.ts';

describe('a deadline', () => {
  it('ends a waiting call without running it', async () => {
    const { harness, gates, ran } = opened();
    harness.call('addSlowly', [1]);
    const late = harness.call('add', [1], { remainingMs: 100, counter: 500 });
    harness.run(100);
    assert.equal(codeOf(late), 'DEADLINE');
    gates[0]?.open();
    await settle();
    assert.equal(ran.includes('caller/1/500'), false);
    assert.equal(codeOf(harness.call('add', [1], { remainingMs: 0 })), 'DEADLINE');
    assert.equal(codeOf(harness.call('read', [], { remainingMs: 0 })), 'DEADLINE');
  });

  it('ends a running call: its signal aborts, its changes are dropped, its turn is free when the method ends', async () => {
    const { harness, gates, contexts } = opened();
    const slow = harness.call('addSlowly', [5], { remainingMs: 100 });
    const { signal } = contexts[0] as Context;
    const add = harness.call('add', [1]);
    harness.run(100);
    assert.deepEqual([codeOf(slow), signal.aborted], ['DEADLINE', true]);
    assert.equal(codeOf(add), 'none', 'the turn is still taken');
    gates[0]?.open();
    await settle();
    harness.run();
    assert.equal(valueOf(add), 1, 'the changes of the late call are dropped');
    assert.equal(harness.disk(0).has('send'), false);
  });

  it('takes the turn from a method that never ends, and ends its context', async () => {
    const { harness, gates, contexts } = opened({ graceMs: 1_000 });
    harness.call('addSlowly', [5], { remainingMs: 100 });
    const add = harness.call('add', [1]);
    harness.run(1_099);
    assert.equal(codeOf(add), 'none');
    harness.run(1);
    assert.equal(valueOf(add), 1);
    assert.throws(() => contexts[0]?.state.set('n', 99), /the call has ended/);
    gates[0]?.open();
    await settle();
    assert.equal(valueOf(harness.call('read')), 1);
    assert.ok(harness.lines.some(({ message }) => message.includes('runs on after its deadline')));
  });

  it('ends a call that waits for its commit; a retry gets its first result', () => {
    const { harness, ran } = opened();
    harness.commitsEnd = false;
    const first = harness.call('add', [1], { counter: 9, remainingMs: 100 });
    harness.run(100);
    assert.equal(codeOf(first), 'DEADLINE');
    const again = harness.call('add', [1], { counter: 9 });
    assert.equal(codeOf(again), 'none');
    harness.log.end();
    assert.equal(valueOf(again), 1);
    assert.equal(ran.length, 1);
  });

  it('ends a readonly call too', async () => {
    const { harness, gates, contexts } = opened();
    const read = harness.call('readSlowly', [], { remainingMs: 50 });
    const { signal } = contexts[0] as Context;
    harness.run(50);
    assert.deepEqual([codeOf(read), signal.aborted], ['DEADLINE', true]);
    gates[0]?.open();
    await settle();
    assert.equal(read.times, 1);
  });
});

describe('a cancellation', () => {
  it('before the turn ends the call, which never runs', async () => {
    const { harness, gates, ran } = opened();
    harness.call('addSlowly', [1]);
    const add = harness.call('add', [1], { counter: 77 });
    add.cancel();
    add.cancel();
    assert.deepEqual([codeOf(add), add.times], ['CANCELLED', 1]);
    gates[0]?.open();
    await settle();
    assert.equal(ran.includes('caller/1/77'), false);
  });

  it('of a running call aborts it, and drops its changes', async () => {
    const { harness, gates, contexts } = opened();
    const slow = harness.call('addSlowly', [1]);
    const { signal } = contexts[0] as Context;
    slow.cancel();
    assert.deepEqual([codeOf(slow), signal.aborted], ['CANCELLED', true]);
    gates[0]?.open();
    await settle();
    assert.equal(valueOf(harness.call('read')), 0);
  });

  it('ends only its own request while another request of the call waits', async () => {
    const { harness, gates } = opened();
    const first = harness.call('addSlowly', [1], { counter: 5 });
    const again = harness.call('addSlowly', [1], { counter: 5 });
    first.cancel();
    assert.deepEqual([codeOf(first), codeOf(again)], ['CANCELLED', 'none']);
    gates[0]?.open();
    await settle();
    harness.run();
    assert.equal(valueOf(again), 1);
  });

  it('after the method has returned cannot undo it', () => {
    const { harness } = opened();
    harness.commitsEnd = false;
    const add = harness.call('add', [1], { counter: 5 });
    add.cancel();
    assert.equal(codeOf(add), 'CANCELLED');
    const again = harness.call('add', [1], { counter: 5 });
    harness.log.end();
    assert.equal(valueOf(again), 1);
  });
});

describe('a retried call', () => {
  it('joins the first request while that waits, runs or commits', async () => {
    const { harness, gates, ran } = opened();
    const slow = harness.call('addSlowly', [1], { counter: 1 });
    const slowAgain = harness.call('addSlowly', [1], { counter: 1 });
    const add = harness.call('add', [1], { counter: 2 });
    const addAgain = harness.call('add', [1], { counter: 2 });
    harness.commitsEnd = false;
    gates[0]?.open();
    await settle();
    const addOnceMore = harness.call('add', [1], { counter: 2 });
    harness.log.end();
    harness.log.end();
    assert.deepEqual([slow, slowAgain, add, addAgain, addOnceMore].map(valueOf), [1, 1, 2, 2, 2]);
    assert.equal(ran.length, 2);
  });

  for (const method of ['add', 'crash', 'refuse'] as const) {
    it(`gets the first result after that has ended: ${method}`, () => {
      const { harness, ran } = opened();
      const first = harness.call(method, [3], { counter: 1 });
      harness.run();
      const again = harness.call(method, [3], { counter: 1 });
      assert.deepEqual(again.outcome, first.outcome);
      assert.equal(ran.length, 1);
    });
  }

  it('is refused and does not run after its caller has reported it as ended', () => {
    const { harness, ran } = opened();
    harness.call('add', [1], { counter: 1 });
    harness.call('add', [1], { counter: 2, lowestPending: 2 });
    harness.run();
    assert.equal(codeOf(harness.call('add', [1], { counter: 1 })), 'PRECONDITION');
    assert.equal(ran.length, 2);
  });

  it('is refused if too many requests wait already', () => {
    const { harness } = opened({ waitersMax: 2 });
    for (const code of ['none', 'none', 'CAPACITY']) {
      assert.equal(codeOf(harness.call('addSlowly', [1], { counter: 1 })), code);
    }
  });

  it('runs again after a retryable error', () => {
    const { harness } = opened({ stateBytesMax: 4 });
    assert.equal(codeOf(harness.call('add', [1_000_000], { counter: 1 })), 'STORE_FULL');
    const again = harness.call('add', [1], { counter: 1 });
    harness.run();
    assert.equal(valueOf(again), 1);
  });
});

describe('without the lease', () => {
  it('no turn starts', () => {
    const { harness, ran } = opened();
    harness.leaseEndsSilently();
    assert.equal(codeOf(harness.call('add', [1])), 'NO_QUORUM');
    assert.equal(codeOf(harness.call('read')), 'NO_QUORUM');
    assert.equal(ran.length, 0);
  });

  it('waiting calls end, and running ones have no effect', async () => {
    const { harness, gates, ran } = opened();
    const slow = harness.call('addSlowly', [1], { counter: 1 });
    const add = harness.call('add', [1], { counter: 2 });
    harness.lease(false);
    assert.deepEqual([codeOf(slow), codeOf(add)], ['NO_QUORUM', 'NO_QUORUM']);
    gates[0]?.open();
    await settle();
    assert.equal(harness.log.commits.length, 0);
    harness.lease(true);
    assert.equal(valueOf(harness.call('read')), 0);
    const again = harness.call('addSlowly', [1], { counter: 1 });
    gates[1]?.open();
    await settle();
    harness.run();
    assert.equal(valueOf(again), 1);
    assert.equal(ran.length, 2);
  });

  it('a completed commit is not acknowledged; when the lease is back, a retry gets the first result', () => {
    const { harness, ran } = opened();
    harness.commitsEnd = false;
    const add = harness.call('add', [1], { counter: 1 });
    const read = harness.call('read');
    harness.leaseEndsSilently();
    harness.log.end();
    assert.deepEqual([codeOf(add), codeOf(read)], ['NO_QUORUM', 'NO_QUORUM']);
    harness.lease(true);
    assert.equal(valueOf(harness.call('add', [1], { counter: 1 })), 1);
    assert.equal(ran.length, 1);
  });

  it('a method that returns after the lease is back takes effect, and a retry gets its result', async () => {
    const { harness, gates, ran } = opened();
    harness.call('addSlowly', [4], { counter: 1 });
    harness.lease(false);
    harness.lease(true);
    const again = harness.call('addSlowly', [4], { counter: 1 });
    gates[0]?.open();
    await settle();
    harness.run();
    assert.equal(valueOf(again), 4);
    assert.equal(ran.length, 1);
  });
});

describe('a commit that fails', () => {
  it('because of another owner closes the container, and no call gets a wrong reply', () => {
    const { harness } = opened();
    harness.commitsEnd = false;
    const calls = [harness.call('add', [1]), harness.call('add', [1]), harness.call('read')];
    const log = harness.log;
    log.end();
    log.end(failure('FENCED'));
    assert.deepEqual(calls.map(codeOf), ['ok', 'FENCED', 'FENCED']);
    log.end();
    harness.run();
    assert.deepEqual(
      calls.map(({ times }) => times),
      [1, 1, 1],
    );
    assert.equal(log.isClosed, true);
    assert.equal(harness.host.lowestOpen(harness.pool), undefined);
  });

  it('because the disk is full ends with STORE_FULL only for calls whose writes are dropped', () => {
    const { harness } = opened();
    const first = harness.call('add', [1], { counter: 1 });
    harness.run();
    assert.equal(valueOf(first), 1);
    harness.commitsEnd = false;
    const add = harness.call('add', [1], { counter: 2 });
    const again = harness.call('add', [1], { counter: 1 });
    const read = harness.call('read');
    harness.log.end(failure('STORE_FULL'));
    assert.deepEqual([add, again, read].map(codeOf), ['STORE_FULL', 'FENCED', 'FENCED']);
  });
});
