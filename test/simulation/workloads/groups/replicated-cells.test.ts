/** Replicated cells deduplicate commands, chain their history and survive a snapshot. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RegisterAction } from '../../checking/register-model.ts';
import { type AppliedCellCommand, encodeCellCommand, ReplicatedCells } from './replicated-cells.ts';

function cellsWith(seen: (AppliedCellCommand | string)[] = []): ReplicatedCells {
  return new ReplicatedCells({
    applied: (applied) => seen.push(applied),
    restored: (index, chain) => seen.push(`${index}/${chain}`),
  });
}

function entry(index: number, number: number, action: RegisterAction, attempt = 1, term = 1) {
  return { index, term, command: encodeCellCommand({ client: 'c1', number, attempt, key: 'a', action }) };
}

describe('replicated cells', () => {
  it('apply a command once and return the same reply to a retry', () => {
    const seen: AppliedCellCommand[] = [];
    const cells = cellsWith(seen);
    const append: RegisterAction = { kind: 'append', value: 'x' };
    assert.deepEqual(cells.apply(entry(1, 1, append)), { kind: 'done', returned: 'x' });
    assert.deepEqual(cells.apply(entry(2, 1, append, 2)), { kind: 'done', returned: 'x' });
    assert.deepEqual(cells.apply(entry(4, 2, append)), { kind: 'done', returned: 'xx' });
    assert.deepEqual(cells.apply(entry(5, 1, append, 3)), { kind: 'superseded' });
    assert.equal(cells.read('a'), 'xx');
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

  it('reply to a swap with the value before it', () => {
    const cells = cellsWith();
    assert.deepEqual(cells.apply(entry(1, 1, { kind: 'put', value: 'p' })), { kind: 'done', returned: '' });
    const swap = { kind: 'swap', expected: 'p', value: 'q' } as const;
    assert.deepEqual(cells.apply(entry(2, 2, swap)), { kind: 'done', returned: 'p' });
    assert.deepEqual(cells.apply(entry(3, 3, swap)), { kind: 'done', returned: 'q' });
    assert.equal(cells.read('a'), 'q');
  });

  it('have another chain hash after another history, and the same after a snapshot', () => {
    const put: RegisterAction = { kind: 'put', value: 'p' };
    const chainOf = (...entries: ReturnType<typeof entry>[]): number => {
      const cells = cellsWith();
      for (const one of entries) cells.apply(one);
      return cells.chainHash;
    };
    const whole = chainOf(entry(1, 1, put), entry(2, 2, put));
    const others = [
      chainOf(entry(2, 2, put)),
      chainOf(entry(1, 1, put), entry(2, 2, put, 1, 2)),
      chainOf(entry(1, 1, put), entry(3, 2, put)),
      chainOf(entry(1, 1, put), entry(1, 1, put), entry(2, 2, put)),
    ];
    assert.equal(new Set([whole, ...others]).size, 5);
    const [source, seen] = [cellsWith(), [] as (AppliedCellCommand | string)[]];
    source.apply(entry(1, 1, put));
    const copy = cellsWith(seen);
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
