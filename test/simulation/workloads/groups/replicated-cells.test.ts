import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RegisterAction } from '../../checking/register-model.ts';
import { type AppliedCellCommand, encodeCellCommand, ReplicatedCells } from './replicated-cells.ts';

function ledgerWith(seen: (AppliedCellCommand | string)[] = []): ReplicatedCells {
  return new ReplicatedCells({
    applied: (applied) => seen.push(applied),
    restored: (index, chain) => seen.push(`${index}/${chain}`),
  });
}

function entry(index: number, number: number, action: RegisterAction, attempt = 1, term = 1) {
  return { index, term, command: encodeCellCommand({ client: 'c1', number, attempt, key: 'a', action }) };
}

describe('the ledger of a simulated group', () => {
  it('does an order once and answers it again', () => {
    const seen: AppliedCellCommand[] = [];
    const ledger = ledgerWith(seen);
    const append: RegisterAction = { kind: 'append', value: 'x' };
    assert.deepEqual(ledger.apply(entry(1, 1, append)), { kind: 'done', saw: 'x' });
    assert.deepEqual(ledger.apply(entry(2, 1, append, 2)), { kind: 'done', saw: 'x' });
    assert.deepEqual(ledger.apply(entry(4, 2, append)), { kind: 'done', saw: 'xx' });
    assert.deepEqual(ledger.apply(entry(5, 1, append, 3)), { kind: 'superseded' });
    assert.equal(ledger.read('a'), 'xx');
    assert.deepEqual(
      seen.map(({ index, effective }) => [index, effective]),
      [
        [1, true],
        [2, false],
        [4, true],
        [5, false],
      ],
    );
  });

  it('answers a swap with what was there before', () => {
    const ledger = ledgerWith();
    assert.deepEqual(ledger.apply(entry(1, 1, { kind: 'put', value: 'p' })), { kind: 'done', saw: '' });
    const swap = { kind: 'swap', expected: 'p', value: 'q' } as const;
    assert.deepEqual(ledger.apply(entry(2, 2, swap)), { kind: 'done', saw: 'p' });
    assert.deepEqual(ledger.apply(entry(3, 3, swap)), { kind: 'done', saw: 'q' });
    assert.equal(ledger.read('a'), 'q');
  });

  it('has another chain after another history, and the same after a snapshot', () => {
    const put: RegisterAction = { kind: 'put', value: 'p' };
    const chainOf = (...entries: ReturnType<typeof entry>[]): number => {
      const ledger = ledgerWith();
      for (const one of entries) ledger.apply(one);
      return ledger.chainHash;
    };
    const whole = chainOf(entry(1, 1, put), entry(2, 2, put));
    const others = [
      chainOf(entry(2, 2, put)),
      chainOf(entry(1, 1, put), entry(2, 2, put, 1, 2)),
      chainOf(entry(1, 1, put), entry(3, 2, put)),
      chainOf(entry(1, 1, put), entry(1, 1, put), entry(2, 2, put)),
    ];
    assert.equal(new Set([whole, ...others]).size, 5);
    const [source, seen] = [ledgerWith(), [] as (AppliedCellCommand | string)[]];
    source.apply(entry(1, 1, put));
    const copy = ledgerWith(seen);
    const intake = copy.beginRestore();
    for (const part of source.snapshot()) intake.add(part);
    assert.deepEqual(seen, []);
    intake.finish();
    assert.deepEqual(seen, [`1/${source.chainHash}`]);
    assert.equal(copy.index, 1);
    copy.apply(entry(2, 2, put));
    assert.equal(copy.chainHash, whole);
    assert.equal(copy.read('a'), 'p');
  });
});
