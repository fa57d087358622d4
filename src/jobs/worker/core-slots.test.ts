import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../base/random.ts';
import { CoreSlots } from './core-slots.ts';

test('a core is held by one unit until it is released', () => {
  const slots = new CoreSlots(2);
  const [a, b] = [slots.acquire('a'), slots.acquire('b')];
  assert.ok(a !== undefined && b !== undefined && a !== b);
  assert.equal(slots.acquire('c'), undefined);
  assert.equal(slots.free, 0);
  slots.release(a, 'a');
  assert.equal(slots.acquire('c'), a);
  assert.equal(slots.holderOf(a), 'c');
});

test('releasing a core twice, or a core of another holder, fails', () => {
  const slots = new CoreSlots(2);
  const core = slots.acquire('a')!;
  assert.throws(() => slots.release(core, 'b'));
  slots.release(core, 'a');
  assert.throws(() => slots.release(core, 'a'));
  assert.throws(() => slots.release(7, 'a'));
  assert.equal(slots.free, 2);
});

test('core slots need at least one core', () => {
  assert.throws(() => new CoreSlots(0));
  assert.throws(() => new CoreSlots(-1));
  assert.throws(() => new CoreSlots(1.5));
});

test('held and free cores always add up to the total', () => {
  const random = new Random('cores');
  const slots = new CoreSlots(5);
  const held = new Map<number, string>();
  for (let step = 0; step < 2_000; step++) {
    if (random.chance(0.5)) {
      const core = slots.acquire(`holder ${step}`);
      assert.equal(core === undefined, held.size === 5);
      if (core !== undefined) held.set(core, `holder ${step}`);
    } else if (held.size > 0) {
      const [core, holder] = random.pick([...held]);
      held.delete(core);
      slots.release(core, holder);
    }
    assert.equal(slots.free + held.size, slots.total);
  }
});
