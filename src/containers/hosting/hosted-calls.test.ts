import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { codeOf, opened, settle, valueOf } from '../../../test/support/containers/hosting-harness.ts';

describe('a call', () => {
  it('is answered when what it wrote is committed, and not before', () => {
    const { scene } = opened();
    scene.commitsEnd = false;
    const add = scene.call('add', [2]);
    scene.run();
    assert.equal(codeOf(add), 'none');
    scene.log.end();
    assert.equal(valueOf(add), 2);
    assert.equal(add.times, 1);
  });

  it('that only reads and waits for nothing is answered on the spot', () => {
    const { scene } = opened();
    assert.equal(valueOf(scene.call('read')), 0);
  });

  it('runs in the order of arrival, without waiting for the commits of the others', () => {
    const { scene } = opened();
    scene.commitsEnd = false;
    const calls = [1, 2, 3].map((by) => scene.call('add', [by]));
    assert.equal(scene.log.commits.length, 3);
    scene.log.end();
    assert.deepEqual(calls.map(codeOf), ['ok', 'none', 'none']);
    scene.log.end();
    scene.log.end();
    assert.deepEqual(calls.map(valueOf), [1, 3, 6]);
  });

  it('knows where it runs', () => {
    const { scene } = opened();
    scene.wallOffsetMs = 5_000;
    const call = scene.call('context', [], { counter: 42, remainingMs: 900 });
    scene.run();
    const pool = { name: 'p', containers: 4, params: { color: 'green' } };
    assert.deepEqual(valueOf(call), [pool, 0, 'n1', 'caller/1/42', 900, 5_000]);
  });

  it('is refused when nobody knows the method or the arguments', () => {
    const { scene } = opened();
    assert.equal(codeOf(scene.call('nothing')), 'UNKNOWN_METHOD');
    assert.equal(codeOf(scene.call('toString')), 'UNKNOWN_METHOD');
    let code = '';
    const id = { session: 's', generation: 1, counter: 1 };
    for (const method of ['add', 'read']) {
      scene.host.call(
        { pool: scene.pool, container: 0, method, args: new Uint8Array([9]), id, lowestPending: 0, remainingMs: 10 },
        (outcome) => (code = outcome.ok ? 'ok' : outcome.error.code),
      );
      assert.equal(code, 'BAD_ARGUMENT');
    }
  });

  it('goes to its own container and to no other', () => {
    const { scene } = opened();
    scene.open({}, 2);
    scene.call('add', [5], { container: 2 });
    scene.run();
    assert.equal(valueOf(scene.call('read', [], { container: 2 })), 5);
    assert.equal(valueOf(scene.call('read')), 0);
    assert.equal(codeOf(scene.call('read', [], { container: 1 })), 'STALE_TABLE');
    const later = { name: 'p', record: { ...scene.pool.record, major: 8 } };
    let code = '';
    const id = { session: 's', generation: 1, counter: 1 };
    const args = new Uint8Array();
    scene.host.call(
      { pool: later, container: 0, method: 'read', args, id, lowestPending: 0, remainingMs: 1 },
      (outcome) => {
        code = outcome.ok ? 'ok' : outcome.error.code;
      },
    );
    assert.equal(code, 'STALE_TABLE', 'a later pool of the same name is another one');
  });
});

describe('a call that fails', () => {
  for (const [method, args, code] of [
    ['crash', [], 'CALL_FAILED'],
    ['refuse', [], 'PRECONDITION'],
    ['large', [10_000_001], 'TOO_LARGE'],
    ['unfit', [], 'BAD_ARGUMENT'],
  ] as const) {
    it(`changes nothing: ${method} ends with ${code}`, () => {
      const { scene } = opened();
      const call = scene.call(method, args);
      scene.run();
      assert.equal(codeOf(call), code);
      assert.equal(valueOf(scene.call('read')), 0);
      assert.equal(scene.disk(0).has('sn'), false);
    });
  }

  it('because it is readonly and writes', () => {
    const { scene } = opened();
    const call = scene.call('sneak');
    assert.equal(codeOf(call), 'CALL_FAILED');
    assert.equal(valueOf(scene.call('read')), 0);
  });

  it('after others were not committed yet waits for them: it may have failed because of them', () => {
    const { scene } = opened();
    scene.commitsEnd = false;
    scene.call('add', [1]);
    const crash = scene.call('crash');
    scene.log.end();
    assert.equal(codeOf(crash), 'none');
    scene.log.end();
    assert.equal(codeOf(crash), 'CALL_FAILED');
  });
});

it('a call whose writes and result together are too large for a commit changes nothing', () => {
  const { scene } = opened({ commitBytesMax: 1_000 });
  const [large, small] = [scene.call('large', [990]), scene.call('large', [500])];
  scene.run();
  assert.deepEqual([codeOf(large), codeOf(small)], ['TOO_LARGE', 'ok']);
});

describe('turns', () => {
  it('are one at a time for those who write, while readers overlap and see only what has returned', async () => {
    const { scene, gates, ran } = opened();
    const slow = scene.call('addSlowly', [10], { counter: 100 });
    const add = scene.call('add', [1], { counter: 101 });
    assert.equal(valueOf(scene.call('read')), 0);
    assert.deepEqual(ran, ['caller/1/100']);
    assert.deepEqual([scene.standing(100), scene.standing(101), scene.standing(7)], ['running', 'waiting', 'unknown']);
    const readers = [scene.call('readSlowly'), scene.call('readSlowly')];
    gates[0]?.open();
    await settle();
    scene.run();
    assert.deepEqual([valueOf(slow), valueOf(add)], [10, 11]);
    for (const reader of readers) assert.equal(codeOf(reader), 'none');
    gates[1]?.open();
    gates[2]?.open();
    await settle();
    assert.deepEqual(readers.map(valueOf), [11, 11]);
  });

  it('of readers end after the commits of what they may have seen', () => {
    const { scene } = opened();
    scene.commitsEnd = false;
    const add = scene.call('add', [1]);
    const read = scene.call('read');
    assert.deepEqual([codeOf(add), codeOf(read)], ['none', 'none']);
    scene.log.end();
    assert.deepEqual([valueOf(add), valueOf(read)], [1, 1]);
  });

  it('are limited in number and bytes', () => {
    const { scene } = opened({ callsMax: 2, callBytesMax: 1_000 });
    scene.commitsEnd = false;
    assert.equal(codeOf(scene.call('add', [1])), 'none');
    assert.equal(codeOf(scene.call('add', [new Uint8Array(1_000)])), 'CAPACITY');
    const second = scene.call('add', [1]);
    assert.equal(codeOf(scene.call('add', [1])), 'CAPACITY');
    assert.equal(codeOf(scene.call('read')), 'CAPACITY', 'its answer would have to wait');
    scene.log.end();
    scene.log.end();
    assert.equal(valueOf(second), 2);
    assert.equal(codeOf(scene.call('add', [1])), 'none');
  });

  it('wait while too much is being committed', () => {
    const { scene } = opened({ commitsMax: 1 });
    scene.commitsEnd = false;
    const calls = [scene.call('add', [1]), scene.call('add', [1])];
    assert.equal(scene.log.commits.length, 1);
    scene.log.end();
    assert.equal(scene.log.commits.length, 1);
    scene.log.end();
    assert.deepEqual(calls.map(valueOf), [1, 2]);
  });

  it('of readers beyond the limit wait for others to end', async () => {
    const { scene, gates } = opened({ readersMax: 1 });
    const [first, second] = [scene.call('readSlowly'), scene.call('read')];
    assert.equal(codeOf(second), 'none');
    gates[0]?.open();
    await settle();
    assert.deepEqual([codeOf(first), valueOf(second)], ['ok', 0]);
  });

  it('are passed on by the answer of a call that causes the next one', () => {
    const { scene } = opened();
    const values: unknown[] = [];
    let counter = 0;
    const next = (): void => {
      counter += 1;
      const id = { session: 'chain', generation: 1, counter };
      const args = new Uint8Array([1, 12, 1, 129]);
      const call = {
        pool: scene.pool,
        container: 0,
        method: 'add',
        args,
        id,
        lowestPending: counter,
        remainingMs: 1_000,
      };
      scene.host.call(call, (outcome) => {
        values.push(outcome.ok);
        if (counter < 2_000) next();
      });
    };
    next();
    scene.run();
    assert.deepEqual([values.length, values.includes(false)], [2_000, false]);
  });
});
