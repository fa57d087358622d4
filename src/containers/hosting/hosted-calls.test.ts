import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { codeOf, opened, settle, valueOf } from '../../../test/support/containers/hosting-harness.ts';

describe('a call', () => {
  it('gets its reply when its writes are committed, and not before', () => {
    const { harness } = opened();
    harness.commitsEnd = false;
    const add = harness.call('add', [2]);
    harness.run();
    assert.equal(codeOf(add), 'none');
    harness.log.end();
    assert.equal(valueOf(add), 2);
    assert.equal(add.times, 1);
  });

  it('that only reads gets its reply at once if no commit is pending', () => {
    const { harness } = opened();
    assert.equal(valueOf(harness.call('read')), 0);
  });

  it('runs in the order of arrival, without waiting for the commits of the others', () => {
    const { harness } = opened();
    harness.commitsEnd = false;
    const calls = [1, 2, 3].map((by) => harness.call('add', [by]));
    assert.equal(harness.log.commits.length, 3);
    harness.log.end();
    assert.deepEqual(calls.map(codeOf), ['ok', 'none', 'none']);
    harness.log.end();
    harness.log.end();
    assert.deepEqual(calls.map(valueOf), [1, 3, 6]);
  });

  it('knows its pool, container and node', () => {
    const { harness } = opened();
    harness.wallOffsetMs = 5_000;
    const call = harness.call('context', [], { counter: 42, remainingMs: 900 });
    harness.run();
    const pool = { name: 'p', containers: 4, params: { color: 'green' } };
    assert.deepEqual(valueOf(call), [pool, 0, 'n1', 'caller/1/42', 900, 5_000]);
  });

  it('is refused if its method is unknown or its arguments are malformed', () => {
    const { harness } = opened();
    assert.equal(codeOf(harness.call('nothing')), 'UNKNOWN_METHOD');
    assert.equal(codeOf(harness.call('toString')), 'UNKNOWN_METHOD');
    let code = '';
    const id = { session: 's', generation: 1, counter: 1 };
    for (const method of ['add', 'read']) {
      harness.host.call(
        { pool: harness.pool, container: 0, method, args: new Uint8Array([9]), id, lowestPending: 0, remainingMs: 10 },
        (outcome) => (code = outcome.ok ? 'ok' : outcome.error.code),
      );
      assert.equal(code, 'BAD_ARGUMENT');
    }
  });

  it('runs in its own container and in no other', () => {
    const { harness } = opened();
    harness.open({}, 2);
    harness.call('add', [5], { container: 2 });
    harness.run();
    assert.equal(valueOf(harness.call('read', [], { container: 2 })), 5);
    assert.equal(valueOf(harness.call('read')), 0);
    assert.equal(codeOf(harness.call('read', [], { container: 1 })), 'STALE_TABLE');
    const later = { name: 'p', record: { ...harness.pool.record, major: 8 } };
    let code = '';
    const id = { session: 's', generation: 1, counter: 1 };
    const args = new Uint8Array();
    harness.host.call(
      { pool: later, container: 0, method: 'read', args, id, lowestPending: 0, remainingMs: 1 },
      (outcome) => {
        code = outcome.ok ? 'ok' : outcome.error.code;
      },
    );
    assert.equal(code, 'STALE_TABLE', 'a later pool of the same name has another number');
  });
});

describe('a call that fails', () => {
  for (const [method, args, code] of [
    ['crash', [], 'CALL_FAILED'],
    ['refuse', [], 'PRECONDITION'],
    ['large', [10_000_001], 'TOO_LARGE'],
    ['unfit', [], 'BAD_ARGUMENT'],
  ] as const) {
    it(`changes no state: ${method} ends with ${code}`, () => {
      const { harness } = opened();
      const call = harness.call(method, args);
      harness.run();
      assert.equal(codeOf(call), code);
      assert.equal(valueOf(harness.call('read')), 0);
      assert.equal(harness.disk(0).has('sn'), false);
    });
  }

  it('changes no state: a readonly method that writes', () => {
    const { harness } = opened();
    const call = harness.call('sneak');
    assert.equal(codeOf(call), 'CALL_FAILED');
    assert.equal(valueOf(harness.call('read')), 0);
  });

  it('waits for earlier commits: it may have failed because of their changes', () => {
    const { harness } = opened();
    harness.commitsEnd = false;
    harness.call('add', [1]);
    const crash = harness.call('crash');
    harness.log.end();
    assert.equal(codeOf(crash), 'none');
    harness.log.end();
    assert.equal(codeOf(crash), 'CALL_FAILED');
  });
});

it('a call whose writes and result exceed one commit changes nothing', () => {
  const { harness } = opened({ commitBytesMax: 1_000 });
  const [large, small] = [harness.call('large', [990]), harness.call('large', [500])];
  harness.run();
  assert.deepEqual([codeOf(large), codeOf(small)], ['TOO_LARGE', 'ok']);
});

describe('turns', () => {
  it('of writers run one at a time, while readers overlap and read only finished turns', async () => {
    const { harness, gates, ran } = opened();
    const slow = harness.call('addSlowly', [10], { counter: 100 });
    const add = harness.call('add', [1], { counter: 101 });
    assert.equal(valueOf(harness.call('read')), 0);
    assert.deepEqual(ran, ['caller/1/100']);
    assert.deepEqual(
      [harness.callStatus(100), harness.callStatus(101), harness.callStatus(7)],
      ['running', 'waiting', 'unknown'],
    );
    const readers = [harness.call('readSlowly'), harness.call('readSlowly')];
    gates[0]?.open();
    await settle();
    harness.run();
    assert.deepEqual([valueOf(slow), valueOf(add)], [10, 11]);
    for (const reader of readers) assert.equal(codeOf(reader), 'none');
    gates[1]?.open();
    gates[2]?.open();
    await settle();
    assert.deepEqual(readers.map(valueOf), [11, 11]);
  });

  it('of readers end after the commits of what they may have read', () => {
    const { harness } = opened();
    harness.commitsEnd = false;
    const add = harness.call('add', [1]);
    const read = harness.call('read');
    assert.deepEqual([codeOf(add), codeOf(read)], ['none', 'none']);
    harness.log.end();
    assert.deepEqual([valueOf(add), valueOf(read)], [1, 1]);
  });

  it('are limited in number and bytes', () => {
    const { harness } = opened({ callsMax: 2, callBytesMax: 1_000 });
    harness.commitsEnd = false;
    assert.equal(codeOf(harness.call('add', [1])), 'none');
    assert.equal(codeOf(harness.call('add', [new Uint8Array(1_000)])), 'CAPACITY');
    const second = harness.call('add', [1]);
    assert.equal(codeOf(harness.call('add', [1])), 'CAPACITY');
    assert.equal(codeOf(harness.call('read')), 'CAPACITY', 'its reply would have to wait');
    harness.log.end();
    harness.log.end();
    assert.equal(valueOf(second), 2);
    assert.equal(codeOf(harness.call('add', [1])), 'none');
  });

  it('wait while too many commits are pending', () => {
    const { harness } = opened({ commitsMax: 1 });
    harness.commitsEnd = false;
    const calls = [harness.call('add', [1]), harness.call('add', [1])];
    assert.equal(harness.log.commits.length, 1);
    harness.log.end();
    assert.equal(harness.log.commits.length, 1);
    harness.log.end();
    assert.deepEqual(calls.map(valueOf), [1, 2]);
  });

  it('of readers beyond the limit wait for a free slot', async () => {
    const { harness, gates } = opened({ readersMax: 1 });
    const [first, second] = [harness.call('readSlowly'), harness.call('read')];
    assert.equal(codeOf(second), 'none');
    gates[0]?.open();
    await settle();
    assert.deepEqual([codeOf(first), valueOf(second)], ['ok', 0]);
  });

  it('are in order even if the reply of a call starts the next call', () => {
    const { harness } = opened();
    const values: unknown[] = [];
    let counter = 0;
    const next = (): void => {
      counter += 1;
      const id = { session: 'chain', generation: 1, counter };
      const args = new Uint8Array([1, 12, 1, 129]);
      const call = {
        pool: harness.pool,
        container: 0,
        method: 'add',
        args,
        id,
        lowestPending: counter,
        remainingMs: 1_000,
      };
      harness.host.call(call, (outcome) => {
        values.push(outcome.ok);
        if (counter < 2_000) next();
      });
    };
    next();
    harness.run();
    assert.deepEqual([values.length, values.includes(false)], [2_000, false]);
  });
});
