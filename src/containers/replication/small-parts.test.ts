/** The small parts: the order of a snapshot, the tail, the journal, the layout, the beginning. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Done, failure, isRemusterError, success } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { parseNodeId } from '../../base/ids.ts';
import { packRows } from '../../base/row-codec.ts';
import type { StoreEntry, StoreWrite } from '../../base/ports.ts';
import type { ContainerRecord, PoolDurability } from '../../placement/state/container-records.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { GroupCommit } from './group-commit.ts';
import {
  type ReplicaMeta,
  allReplicaMetas,
  replicaMetaKey,
  replicaMetaWrite,
  emptyMeta,
  parseReplicaMetaKey,
  prefixOfRow,
  readReplicaMeta,
  slotPrefix,
  slotRows,
} from './replica-layout.ts';
import { createMemoryStore } from './memory-store.ts';
import { recoveredMeta } from './recovery.ts';
import { SnapshotSender } from './snapshot-sender.ts';
import { AckPacer } from './ack-pacer.ts';
import { LogTail, LogTailBudget, type LogTailShare, commitBytes, unpackedCommit } from './log-tail.ts';

const [f1, f2] = [fenceOf(1, 1), fenceOf(1, 2)];
const row = { key: 'k', value: new Uint8Array() };

describe('the order of a snapshot', () => {
  test('installs one page at once when nothing is on its way', () => {
    const sender = new SnapshotSender(1, 7);
    assert.equal(sender.next(7), 'page');
    assert.equal(sender.pageSent([row], true, 7), true);
  });

  test('waits for every commit that a page may have shown', () => {
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

  test('sends pages and commits in turn, so that neither starves', () => {
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

describe('a tail', () => {
  test('knows its history by fence and number', () => {
    const tail = new LogTail(f2, { fence: f1, seq: 4 });
    tail.append({ writes: [], bytes: 1, packed: undefined });
    assert.deepEqual(
      [
        tail.canContinueFrom({ fence: f1, seq: 4 }),
        tail.canContinueFrom({ fence: f2, seq: 5 }),
        tail.canContinueFrom({ fence: f1, seq: 5 }),
        tail.canContinueFrom({ fence: f2, seq: 4 }),
        tail.canContinueFrom({ fence: f2, seq: 6 }),
        tail.canContinueFrom({ fence: f1, seq: 3 }),
      ],
      [true, true, false, false, false, false],
    );
  });

  test('gives as much as fits, and never less than one', () => {
    const tail = new LogTail(f2, { fence: f1, seq: 0 });
    for (let i = 0; i < 200; i++)
      tail.append({ writes: [{ key: String(i), value: null }], bytes: 10, packed: undefined });
    assert.equal(tail.after(0, 200, 35).length, 3);
    assert.equal(tail.after(0, 2, 35).length, 2);
    assert.equal(tail.after(0, 200, 1).length, 1);
    tail.trim(150, 0);
    assert.deepEqual([tail.start, tail.last, tail.bytes], [{ fence: f2, seq: 150 }, 200, 500]);
    assert.equal(tail.after(160, 161, 100)[0]?.writes[0]?.key, '160');
    tail.rollBack(199);
    assert.equal(tail.last, 199);
    assert.throws(() => tail.after(100, 200, 1), /is gone/);
  });

  test('all together have a bound: whoever has not written for longest forgets first', () => {
    const budget = new LogTailBudget(100);
    const shed: string[] = [];
    const join = (name: string): LogTailShare => {
      const share: LogTailShare = budget.join(() => {
        shed.push(name);
        budget.used(share, 0);
      });
      return share;
    };
    const [x, y, z] = [join('x'), join('y'), join('z')];
    budget.used(x, 40);
    budget.used(y, 40);
    budget.used(x, 50);
    budget.used(z, 40);
    assert.deepEqual([shed, budget.bytes], [['y'], 90]);
    budget.truncated(x);
    assert.equal(budget.bytes, 40);
  });

  test('counts at least what goes over the wire', () => {
    assert.ok(commitBytes([{ key: '\u20ac'.repeat(10), value: new Uint8Array(5) }]) >= 35);
  });
});

describe('a journal', () => {
  type Call = { readonly keys: string; readonly done: Done<void> };

  function journal(): {
    calls: Call[];
    write: (key: string) => void;
    prepare: GroupCommit['beforeWrite'];
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
    const made = new GroupCommit(store, { schedule: (ms, run) => timeline.after(ms, run) });
    const write = (key: string): void =>
      made.write([{ key, value: null }], 10, (outcome) => ends.push(key + (outcome.ok ? '' : outcome.error.code)));
    return { calls, write, prepare: (run) => made.beforeWrite(run), ends, timeline };
  }

  test('writes together what comes in one turn, or while a write is under way', () => {
    const { calls, write, ends, timeline } = journal();
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
    assert.deepEqual([ends, calls.length], [['a', 'b'], 1], 'those who heard of it may add theirs');
    write('e');
    timeline.step();
    assert.equal(calls[1]?.keys, 'cde');
  });

  test('asks for jobs when it begins a write, and not before', () => {
    const { calls, write, prepare, timeline } = journal();
    let keys = ['a'];
    const prepared = (): void => keys.forEach(write);
    prepare(prepared);
    timeline.step();
    keys = ['b'];
    prepare(prepared);
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

  test('lets a job that cannot be written fail alone', () => {
    const { calls, write, ends, timeline } = journal();
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

test('the layout is read as it was written', () => {
  const meta: ReplicaMeta = {
    slot: { fence: f1, snapshot: 3 },
    position: { fence: f2, seq: 2 ** 40 },
    maxFence: fenceOf(9, 9),
  };
  for (const one of [meta, emptyMeta]) {
    const { key, value } = replicaMetaWrite(7, 99, one);
    assert.deepEqual([key, value && readReplicaMeta(value)], [replicaMetaKey(7, 99), one]);
  }
  assert.deepEqual(parseReplicaMetaKey(replicaMetaKey(36, 2 ** 31)), { pool: 36, container: 2 ** 31 });
  assert.equal(parseReplicaMetaKey('copies/s/1/2'), undefined);
  assert.ok(replicaMetaKey(1, 1) >= allReplicaMetas.from && replicaMetaKey(2 ** 50, 1) < allReplicaMetas.to);
  const prefix = slotPrefix(7, 99, { fence: f1, snapshot: 3 });
  assert.equal(prefixOfRow(`${prefix}a/b/c`), prefix);
  const { from, to } = slotRows(prefix);
  assert.ok(`${prefix}\u{10ffff}` < to && from <= prefix);
  assert.equal(readReplicaMeta(new Uint8Array(3)), undefined);
});

describe('the beginning of an owner', () => {
  const self = { node: parseNodeId('a'.repeat(32)), generation: 2 };
  const other = { node: parseNodeId('b'.repeat(32)), generation: 2 };
  const held: ReplicaMeta = { slot: { fence: f1, snapshot: 0 }, position: { fence: f1, seq: 3 }, maxFence: f1 };
  const base: ContainerRecord = {
    owner: self,
    fence: f2,
    opening: 'recover',
    phase: 'opening',
    copies: [self.node],
    inSync: [self],
    move: undefined,
    moduleVersion: 0,
    failures: 0,
    note: '',
  };

  function begin(
    record: Partial<ContainerRecord>,
    meta = held,
    more: { durability?: PoolDurability; isCorrupt?: boolean; spentFence?: bigint } = {},
  ): ReplicaMeta | string {
    const { durability = 'copies', isCorrupt = false, spentFence } = more;
    const found = recoveredMeta(self, durability, { ...base, ...record }, { meta, isCorrupt, usedFence: spentFence });
    return isRemusterError(found) ? found.code : found;
  }

  test('is what is there, under the new fence', () => {
    assert.deepEqual(begin({}), { ...held, maxFence: f2 });
    assert.deepEqual(
      begin({ opening: 'init', phase: 'serving' }),
      { ...held, maxFence: f2 },
      'it has been open before',
    );
  });

  test('is nothing only for what is new', () => {
    const empty = { slot: { fence: f2, snapshot: 0 }, position: { fence: f2, seq: 0 }, maxFence: f2 };
    assert.deepEqual(begin({ opening: 'init' }), empty);
    assert.deepEqual(begin({ opening: 'init' }, emptyMeta, { isCorrupt: true }), empty);
    assert.equal(begin({}, emptyMeta), 'STORE_CORRUPT');
    assert.equal(begin({}, held, { isCorrupt: true }), 'STORE_CORRUPT');
    assert.equal(begin({ inSync: [other] }), 'STORE_CORRUPT');
    const begun = { ...held, position: { fence: f2, seq: 4 }, maxFence: f2 };
    assert.deepEqual(begin({ opening: 'init' }, begun), begun, 'it has begun under this very fence');
  });

  test('is no beginning for whoever is not the owner, or was superseded', () => {
    assert.equal(begin({ owner: other }), 'FENCED');
    assert.equal(begin({ owner: { ...self, generation: 1 } }), 'FENCED');
    assert.equal(begin({}, { ...held, maxFence: fenceOf(2, 0) }), 'FENCED');
    assert.equal(begin({}, held, { spentFence: f2 }), 'FENCED');
  });

  test('needs the same life in a pool without disks', () => {
    assert.equal(begin({ inSync: [{ ...self, generation: 1 }] }, held, { durability: 'memory' }), 'STORE_CORRUPT');
    assert.notEqual(begin({ inSync: [{ ...self, generation: 1 }] }), 'STORE_CORRUPT');
  });
});

describe('a pool without disks', () => {
  test('keeps nothing of the memory in which its rows came', () => {
    const timeline = new Timeline();
    const store = createMemoryStore({ schedule: (ms, run) => timeline.after(ms, run) });
    const large = new Uint8Array(8_192).fill(7);
    const rows = ['a', 'b'].map((key) => ({ key, value: large.subarray(0, 100) }));
    store.write(unpackedCommit(rows.slice(0, 1), 0).writes, () => {});
    store.write([{ prefix: '', packed: packRows(rows.slice(1)) }], () => {});
    large.fill(0);
    const found: StoreEntry[] = [];
    store.read({ from: '', to: 'z', limit: 10 }, (outcome) => found.push(...(outcome.ok ? outcome.value : [])));
    timeline.runUntil(1);
    assert.deepEqual(
      found.map(({ key, value }) => [key, value[99], value.buffer.byteLength]),
      [
        ['a', 7, 100],
        ['b', 7, 100],
      ],
    );
  });
});

describe('answers to commits', () => {
  test('come some in each turn, from all in order, and to nobody who has left', () => {
    const scheduled: (() => void)[] = [];
    const clock = { schedule: (_delayMs: number, run: () => void) => (scheduled.push(run), () => {}) };
    const wanted = new Map([
      ['a', 300],
      ['b', 250],
      ['gone', 20],
    ]);
    const told: string[] = [];
    const turns = new AckPacer<string>(clock, (name) => answer(name));
    function answer(name: string): void {
      const before = wanted.get(name)!;
      let left = before;
      while (left > 0 && turns.tryAck(name)) left -= 1;
      wanted.set(name, left);
      told.push(`${name} ${before - left}`);
    }
    for (const name of wanted.keys()) answer(name);
    turns.remove('gone');
    while (scheduled.length > 0) {
      told.push('next turn');
      scheduled.shift()!();
    }
    const first = ['a 256', 'b 0', 'gone 0'];
    assert.deepEqual(told, [...first, 'next turn', 'a 44', 'b 212', 'next turn', 'b 38', 'next turn']);
  });
});
