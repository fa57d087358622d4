import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { failure } from '../../base/errors.ts';
import type { Context } from '../module.ts';
import { codeOf, opened, settle, valueOf } from '../../../test/support/containers/hosting-harness.ts';

describe('a deadline', () => {
  it('ends a call that waits, without running it', async () => {
    const { scene, gates, ran } = opened();
    scene.call('addSlowly', [1]);
    const late = scene.call('add', [1], { remainingMs: 100, counter: 500 });
    scene.run(100);
    assert.equal(codeOf(late), 'DEADLINE');
    gates[0]?.open();
    await settle();
    assert.equal(ran.includes('caller/1/500'), false);
    assert.equal(codeOf(scene.call('add', [1], { remainingMs: 0 })), 'DEADLINE');
    assert.equal(codeOf(scene.call('read', [], { remainingMs: 0 })), 'DEADLINE');
  });

  it('ends a call that runs: signal, answer, nothing kept; the turn is free when the method has ended', async () => {
    const { scene, gates, contexts } = opened();
    const slow = scene.call('addSlowly', [5], { remainingMs: 100 });
    const { signal } = contexts[0] as Context;
    const add = scene.call('add', [1]);
    scene.run(100);
    assert.deepEqual([codeOf(slow), signal.aborted], ['DEADLINE', true]);
    assert.equal(codeOf(add), 'none', 'the turn is still taken');
    gates[0]?.open();
    await settle();
    scene.run();
    assert.equal(valueOf(add), 1, 'what the late one wrote is gone');
    assert.equal(scene.disk(0).has('send'), false);
  });

  it('takes the turn from a method that never ends, and its context is dead', async () => {
    const { scene, gates, contexts } = opened({ graceMs: 1_000 });
    scene.call('addSlowly', [5], { remainingMs: 100 });
    const add = scene.call('add', [1]);
    scene.run(1_099);
    assert.equal(codeOf(add), 'none');
    scene.run(1);
    assert.equal(valueOf(add), 1);
    assert.throws(() => contexts[0]?.state.set('n', 99), /the call is over/);
    gates[0]?.open();
    await settle();
    assert.equal(valueOf(scene.call('read')), 1);
    assert.ok(scene.lines.some(({ message }) => message.includes('goes on after its time')));
  });

  it('ends a call that waits for its commit; sent again, it gets the answer of the first time', () => {
    const { scene, ran } = opened();
    scene.commitsEnd = false;
    const first = scene.call('add', [1], { counter: 9, remainingMs: 100 });
    scene.run(100);
    assert.equal(codeOf(first), 'DEADLINE');
    const again = scene.call('add', [1], { counter: 9 });
    assert.equal(codeOf(again), 'none');
    scene.log.end();
    assert.equal(valueOf(again), 1);
    assert.equal(ran.length, 1);
  });

  it('ends a reader too', async () => {
    const { scene, gates, contexts } = opened();
    const read = scene.call('readSlowly', [], { remainingMs: 50 });
    const { signal } = contexts[0] as Context;
    scene.run(50);
    assert.deepEqual([codeOf(read), signal.aborted], ['DEADLINE', true]);
    gates[0]?.open();
    await settle();
    assert.equal(read.times, 1);
  });
});

describe('who cancels', () => {
  it('before the turn has come is told so, and the call never runs', async () => {
    const { scene, gates, ran } = opened();
    scene.call('addSlowly', [1]);
    const add = scene.call('add', [1], { counter: 77 });
    add.cancel();
    add.cancel();
    assert.deepEqual([codeOf(add), add.times], ['CANCELLED', 1]);
    gates[0]?.open();
    await settle();
    assert.equal(ran.includes('caller/1/77'), false);
  });

  it('while it runs aborts it, and nothing is kept', async () => {
    const { scene, gates, contexts } = opened();
    const slow = scene.call('addSlowly', [1]);
    const { signal } = contexts[0] as Context;
    slow.cancel();
    assert.deepEqual([codeOf(slow), signal.aborted], ['CANCELLED', true]);
    gates[0]?.open();
    await settle();
    assert.equal(valueOf(scene.call('read')), 0);
  });

  it('while another request of the same call waits ends only its own', async () => {
    const { scene, gates } = opened();
    const first = scene.call('addSlowly', [1], { counter: 5 });
    const again = scene.call('addSlowly', [1], { counter: 5 });
    first.cancel();
    assert.deepEqual([codeOf(first), codeOf(again)], ['CANCELLED', 'none']);
    gates[0]?.open();
    await settle();
    scene.run();
    assert.equal(valueOf(again), 1);
  });

  it('after the method has returned cannot undo it', () => {
    const { scene } = opened();
    scene.commitsEnd = false;
    const add = scene.call('add', [1], { counter: 5 });
    add.cancel();
    assert.equal(codeOf(add), 'CANCELLED');
    const again = scene.call('add', [1], { counter: 5 });
    scene.log.end();
    assert.equal(valueOf(again), 1);
  });
});

describe('a call that is sent again', () => {
  it('while the first waits, runs or commits joins it', async () => {
    const { scene, gates, ran } = opened();
    const slow = scene.call('addSlowly', [1], { counter: 1 });
    const slowAgain = scene.call('addSlowly', [1], { counter: 1 });
    const add = scene.call('add', [1], { counter: 2 });
    const addAgain = scene.call('add', [1], { counter: 2 });
    scene.commitsEnd = false;
    gates[0]?.open();
    await settle();
    const addOnceMore = scene.call('add', [1], { counter: 2 });
    scene.log.end();
    scene.log.end();
    assert.deepEqual([slow, slowAgain, add, addAgain, addOnceMore].map(valueOf), [1, 1, 2, 2, 2]);
    assert.equal(ran.length, 2);
  });

  for (const method of ['add', 'crash', 'refuse'] as const) {
    it(`after the first has ended gets its answer: ${method}`, () => {
      const { scene, ran } = opened();
      const first = scene.call(method, [3], { counter: 1 });
      scene.run();
      const again = scene.call(method, [3], { counter: 1 });
      assert.deepEqual(again.outcome, first.outcome);
      assert.equal(ran.length, 1);
    });
  }

  it('after its caller had said that it was over is refused, and does not run', () => {
    const { scene, ran } = opened();
    scene.call('add', [1], { counter: 1 });
    scene.call('add', [1], { counter: 2, lowestPending: 2 });
    scene.run();
    assert.equal(codeOf(scene.call('add', [1], { counter: 1 })), 'PRECONDITION');
    assert.equal(ran.length, 2);
  });

  it('too often while the first runs is refused', () => {
    const { scene } = opened({ waitersMax: 2 });
    for (const code of ['none', 'none', 'CAPACITY']) {
      assert.equal(codeOf(scene.call('addSlowly', [1], { counter: 1 })), code);
    }
  });

  it('after an error that may pass runs again', () => {
    const { scene } = opened({ stateBytesMax: 4 });
    assert.equal(codeOf(scene.call('add', [1_000_000], { counter: 1 })), 'STORE_FULL');
    const again = scene.call('add', [1], { counter: 1 });
    scene.run();
    assert.equal(valueOf(again), 1);
  });
});

describe('without the lease', () => {
  it('nothing begins', () => {
    const { scene, ran } = opened();
    scene.leaseEndsSilently();
    assert.equal(codeOf(scene.call('add', [1])), 'NO_QUORUM');
    assert.equal(codeOf(scene.call('read')), 'NO_QUORUM');
    assert.equal(ran.length, 0);
  });

  it('those who wait are told, and what runs has no effect', async () => {
    const { scene, gates, ran } = opened();
    const slow = scene.call('addSlowly', [1], { counter: 1 });
    const add = scene.call('add', [1], { counter: 2 });
    scene.lease(false);
    assert.deepEqual([codeOf(slow), codeOf(add)], ['NO_QUORUM', 'NO_QUORUM']);
    gates[0]?.open();
    await settle();
    assert.equal(scene.log.commits.length, 0);
    scene.lease(true);
    assert.equal(valueOf(scene.call('read')), 0);
    const again = scene.call('addSlowly', [1], { counter: 1 });
    gates[1]?.open();
    await settle();
    scene.run();
    assert.equal(valueOf(again), 1);
    assert.equal(ran.length, 2);
  });

  it('a commit that ends is not acknowledged; when the lease is back the call is answered as the first time', () => {
    const { scene, ran } = opened();
    scene.commitsEnd = false;
    const add = scene.call('add', [1], { counter: 1 });
    const read = scene.call('read');
    scene.leaseEndsSilently();
    scene.log.end();
    assert.deepEqual([codeOf(add), codeOf(read)], ['NO_QUORUM', 'NO_QUORUM']);
    scene.lease(true);
    assert.equal(valueOf(scene.call('add', [1], { counter: 1 })), 1);
    assert.equal(ran.length, 1);
  });

  it('a method that goes on and returns when the lease is back has its effect, and who asks again gets it', async () => {
    const { scene, gates, ran } = opened();
    scene.call('addSlowly', [4], { counter: 1 });
    scene.lease(false);
    scene.lease(true);
    const again = scene.call('addSlowly', [4], { counter: 1 });
    gates[0]?.open();
    await settle();
    scene.run();
    assert.equal(valueOf(again), 4);
    assert.equal(ran.length, 1);
  });
});

describe('a commit that fails', () => {
  it('because of another owner ends the container; nobody is answered wrongly', () => {
    const { scene } = opened();
    scene.commitsEnd = false;
    const calls = [scene.call('add', [1]), scene.call('add', [1]), scene.call('read')];
    const log = scene.log;
    log.end();
    log.end(failure('FENCED'));
    assert.deepEqual(calls.map(codeOf), ['ok', 'FENCED', 'FENCED']);
    log.end();
    scene.run();
    assert.deepEqual(
      calls.map(({ times }) => times),
      [1, 1, 1],
    );
    assert.equal(log.isClosed, true);
    assert.equal(scene.host.lowestOpen(scene.pool), undefined);
  });

  it('because the disk is full says so to those whose writes are not kept, and to nobody else', () => {
    const { scene } = opened();
    const first = scene.call('add', [1], { counter: 1 });
    scene.run();
    assert.equal(valueOf(first), 1);
    scene.commitsEnd = false;
    const add = scene.call('add', [1], { counter: 2 });
    const again = scene.call('add', [1], { counter: 1 });
    const read = scene.call('read');
    scene.log.end(failure('STORE_FULL'));
    assert.deepEqual([add, again, read].map(codeOf), ['STORE_FULL', 'FENCED', 'FENCED']);
  });
});
