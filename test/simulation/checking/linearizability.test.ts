/** The linearizability check, compared with an exhaustive search and with histories of a real register. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Random } from '../../../src/base/random.ts';
import { type RegisterAction, registerModel } from './register-model.ts';
import { checkByKey, checkLinearizable, type HistoryOperation } from './linearizability.ts';

type Cell = HistoryOperation<RegisterAction>;

/** Tries every order of every subset that has all operations with a reply: slow, and too simple to be wrong. */
function isExplainable(open: readonly Cell[], state = ''): boolean {
  if (open.every(({ endedAt }) => endedAt === Infinity)) return true;
  const firstEnd = Math.min(...open.map(({ endedAt }) => endedAt));
  return open.some((next) => {
    if (next.calledAt > firstEnd) return false;
    const after = registerModel.after(state, next.action, next.endedAt < Infinity);
    return (
      after !== undefined &&
      isExplainable(
        open.filter((other) => other !== next),
        after,
      )
    );
  });
}

const value = fc.constantFrom('a', 'b', 'c');
const text = fc.constantFrom('', 'a', 'b', 'c', 'ab', 'ba', 'aa', 'abc');
const action: fc.Arbitrary<RegisterAction> = fc.oneof(
  fc.record({ kind: fc.constant('read' as const), returned: text }),
  fc.record({ kind: fc.constant('put' as const), value }),
  fc.record({ kind: fc.constant('swap' as const), expected: text, value, returned: text }),
  fc.record({ kind: fc.constant('append' as const), value, returned: text }),
);

/** Calls and ends in some order, no two events at the same position. */
const history = fc
  .array(fc.record({ action, from: fc.nat(40), length: fc.nat(20), replied: fc.nat(4) }), { maxLength: 7 })
  .map((drawn) =>
    drawn.map(({ action: made, from, length, replied }, at): Cell => ({
      action: made,
      calledAt: from + at / 100,
      endedAt: replied === 0 ? Infinity : from + length + (at + 50) / 100,
    })),
  );

/**
 * The history that `clients` observe of one real register: each action takes effect at one instant between call and
 * end.
 */
function linearizableHistory(seed: number, clients: number, each: number, lostRatio: number): Cell[] {
  const random = new Random(`lived/${seed}`);
  let [now, state, tokens] = [0, '', 0];
  type Live = { cell: Cell; isEffective: boolean; readonly client: number };
  const live: Live[] = [];
  const done: Cell[] = [];
  const quota = Array.from({ length: clients }, () => each);
  const takeEffect = (one: Live): void => {
    const act = one.cell.action;
    const before = state;
    state = registerModel.after(state, act, false) ?? state;
    one.isEffective = true;
    const returned = act.kind === 'swap' ? { returned: before } : act.kind === 'put' ? {} : { returned: state };
    one.cell = { ...one.cell, action: { ...act, ...returned } };
  };
  const draw = (): RegisterAction => {
    const [kind, token] = [random.below(4), `<${++tokens}>`];
    if (kind === 0) return { kind: 'read' };
    if (kind === 1) return { kind: 'put', value: token };
    if (kind === 2) return { kind: 'append', value: token };
    return { kind: 'swap', expected: random.chance(0.6) ? state : token, value: token };
  };
  while (quota.some((left) => left > 0) || live.length > 0) {
    now += 1;
    const client = random.below(clients);
    const mine = live.find((one) => one.client === client);
    if (mine === undefined && (quota[client] as number) > 0) {
      quota[client] = (quota[client] as number) - 1;
      live.push({ client, isEffective: false, cell: { calledAt: now, endedAt: Infinity, action: draw() } });
    } else if (mine !== undefined && !mine.isEffective && random.chance(0.7)) takeEffect(mine);
    else if (mine !== undefined) {
      if (!mine.isEffective && !random.chance(lostRatio)) continue;
      const lost = random.chance(lostRatio) || !mine.isEffective;
      done.push(lost ? mine.cell : { ...mine.cell, endedAt: now });
      live.splice(live.indexOf(mine), 1);
    }
  }
  return done;
}

describe('the linearizability check', () => {
  it('agrees with an exhaustive search of all orders', () => {
    let [yes, no] = [0, 0];
    fc.assert(
      fc.property(history, (cells) => {
        const expected = isExplainable(cells);
        if (expected) yes += 1;
        else no += 1;
        assert.equal(checkLinearizable(registerModel, cells).kind, expected ? 'linearizable' : 'violated');
      }),
      { numRuns: 3_000 },
    );
    assert.ok(yes > 100 && no > 100, `${yes} linearizable, ${no} not`);
  });

  it('accepts the history of a real register, also when replies are lost', () => {
    for (let seed = 1; seed <= 150; seed++) {
      const cells = linearizableHistory(seed, 5, 30, seed % 3 === 0 ? 0 : 0.3);
      assert.equal(checkLinearizable(registerModel, cells).kind, 'linearizable', `seed ${seed}`);
    }
  });

  it('refuses a read that returns a value overwritten before the read started', () => {
    let found = 0;
    for (let seed = 1; seed <= 150; seed++) {
      const cells = linearizableHistory(seed, 4, 25, 0);
      const calledLast = Math.max(...cells.map(({ calledAt }) => calledAt));
      const reads = cells.filter(({ action: { kind }, endedAt }) => kind === 'read' && endedAt < Infinity);
      const old = reads.find(({ action: act }) => act.kind === 'read' && act.returned !== '')?.action;
      const end = Math.max(calledLast, ...cells.map(({ endedAt }) => (endedAt === Infinity ? 0 : endedAt)));
      if (old === undefined) continue;
      const fresh: Cell = { calledAt: end + 1, endedAt: end + 2, action: { kind: 'put', value: 'fresh' } };
      const stale: Cell = { calledAt: end + 3, endedAt: end + 4, action: old };
      const result = checkLinearizable(registerModel, [...cells, fresh, stale]);
      assert.equal(result.kind, 'violated', `seed ${seed}`);
      if (result.kind === 'violated') assert.deepEqual(result.blockedOperations.at(-1), stale);
      found += 1;
    }
    assert.ok(found >= 100, 'too few seeds have a read to repeat');
  });

  it('refuses a reply that was altered', () => {
    let found = 0;
    for (let seed = 1; seed <= 100; seed++) {
      const cells = linearizableHistory(seed, 4, 25, 0);
      const at = cells.findIndex(({ action: act }) => act.kind === 'append');
      const changed = cells.with(at, {
        ...(cells[at] as Cell),
        action: { kind: 'append', value: 'x', returned: 'other' },
      });
      assert.equal(checkLinearizable(registerModel, changed).kind, 'violated');
      found += 1;
    }
    assert.equal(found, 100);
  });

  it('lets an operation without a reply take effect late, once, or never', () => {
    const lost: Cell = { calledAt: 1, endedAt: Infinity, action: { kind: 'append', value: 'x' } };
    const read = (calledAt: number, returned: string): Cell => ({
      calledAt,
      endedAt: calledAt + 1,
      action: { kind: 'read', returned },
    });
    assert.equal(checkLinearizable(registerModel, [lost, read(10, ''), read(20, 'x')]).kind, 'linearizable');
    assert.equal(checkLinearizable(registerModel, [lost, read(10, ''), read(20, '')]).kind, 'linearizable');
    assert.equal(checkLinearizable(registerModel, [lost, read(10, 'x'), read(20, '')]).kind, 'violated');
    assert.equal(checkLinearizable(registerModel, [lost, read(10, 'x'), read(20, 'xx')]).kind, 'violated');
  });

  it('returns undecided after its step limit', () => {
    const puts = Array.from({ length: 16 }, (_, at): Cell => ({
      calledAt: at,
      endedAt: 100 + at,
      action: { kind: 'put', value: `${at}` },
    }));
    const read: Cell = { calledAt: 200, endedAt: 201, action: { kind: 'read', returned: 'never written' } };
    assert.deepEqual(checkLinearizable(registerModel, [...puts, read], 1_000), { kind: 'undecided', steps: 1_000 });
  });

  it('checks each key separately and names the one that violates it', () => {
    const put = { calledAt: 1, endedAt: 2, action: { kind: 'put', value: 'v' } } as const;
    const read = { calledAt: 3, endedAt: 4, action: { kind: 'read', returned: 'v' } } as const;
    const fine = [
      { key: 'a', ...put },
      { key: 'a', ...read },
    ];
    assert.equal(checkByKey(registerModel, fine), undefined);
    const wrong = checkByKey(registerModel, [...fine, { key: 'b', ...read }]);
    assert.equal(wrong?.key, 'b');
    assert.equal(wrong.result.kind, 'violated');
  });
});
