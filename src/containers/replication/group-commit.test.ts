/** Which writes share a sync, and what happens when it fails. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Done, failure, success } from '../../base/errors.ts';
import type { StoreWrite } from '../../base/ports.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { GroupCommit } from './group-commit.ts';

describe('a group commit', () => {
  type Call = { readonly keys: string; readonly done: Done<void> };

  function groupCommit(): {
    calls: Call[];
    write: (key: string) => void;
    beforeWrite: GroupCommit['beforeWrite'];
    ends: string[];
    timeline: Timeline;
  } {
    const timeline = new Timeline();
    const calls: Call[] = [];
    const ends: string[] = [];
    const store = {
      write: (batch: readonly StoreWrite[], done: Done<void>) =>
        void calls.push({ keys: batch.map(({ key }) => key).join(''), done }),
    };
    const group = new GroupCommit(store, { schedule: (ms, run) => timeline.after(ms, run) });
    const write = (key: string): void =>
      group.write([{ key, value: null }], 10, (outcome) => ends.push(key + (outcome.ok ? '' : outcome.error.code)));
    return { calls, write, beforeWrite: (run) => group.beforeWrite(run), ends, timeline };
  }

  test('joins the writes of one turn, and those that arrive during a write', () => {
    const { calls, write, ends, timeline } = groupCommit();
    write('a');
    write('b');
    assert.equal(calls.length, 0);
    timeline.step();
    write('c');
    write('d');
    assert.deepEqual(
      calls.map(({ keys }) => keys),
      ['ab'],
    );
    calls[0]?.done(success(undefined));
    assert.deepEqual([ends, calls.length], [['a', 'b'], 1], 'the callers of the first write may add their next ones');
    write('e');
    timeline.step();
    assert.equal(calls[1]?.keys, 'cde');
  });

  test('calls back just before a write, and not earlier', () => {
    const { calls, write, beforeWrite, timeline } = groupCommit();
    let keys = ['a'];
    const writeKeys = (): void => keys.forEach(write);
    beforeWrite(writeKeys);
    timeline.step();
    keys = ['b'];
    beforeWrite(writeKeys);
    keys = ['b', 'c'];
    timeline.step();
    assert.deepEqual(
      calls.map((call) => call.keys),
      ['a'],
    );
    calls[0]?.done(success(undefined));
    timeline.step();
    assert.deepEqual(
      calls.map((call) => call.keys),
      ['a', 'bc'],
    );
  });

  test('lets a bad write fail alone', () => {
    const { calls, write, ends, timeline } = groupCommit();
    for (const key of ['a', 'b', 'c']) write(key);
    timeline.step();
    calls[0]?.done(failure('STORE_FULL'));
    calls[1]?.done(success(undefined));
    calls[2]?.done(failure('STORE_FULL'));
    calls[3]?.done(success(undefined));
    assert.deepEqual(
      [ends, calls.map(({ keys }) => keys)],
      [
        ['a', 'bSTORE_FULL', 'c'],
        ['abc', 'a', 'b', 'c'],
      ],
    );
  });
});
