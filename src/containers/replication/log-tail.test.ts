/** The log tail and its byte budget. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fenceOf } from '../../base/fence.ts';
import { LogTail, LogTailBudget, type LogTailShare, commitBytes } from './log-tail.ts';

const [f1, f2] = [fenceOf(1, 1), fenceOf(1, 2)];

describe('a log tail', () => {
  test('continues only from positions of its own history', () => {
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

  test('returns as many commits as fit, and at least one', () => {
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
    assert.throws(() => tail.after(100, 200, 1), /are trimmed/);
  });

  test('shares a byte budget with all others: the one that was not written for longest is trimmed first', () => {
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
    budget.leave(x);
    assert.equal(budget.bytes, 40);
  });

  test('counts at least the bytes that a commit has on the wire', () => {
    assert.ok(commitBytes([{ key: '\u20ac'.repeat(10), value: new Uint8Array(5) }]) >= 35);
  });
});
