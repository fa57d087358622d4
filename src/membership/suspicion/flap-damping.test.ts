import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import { FlapDamping } from './flap-damping.ts';

const groupSize = 32;
const member = (place: number): NodeId => nodeIdFrom(new Uint8Array(16).fill(place));

/** One accusation per second, by `accusers` members in turn; returns the withdrawals. */
function accuse(damping: FlapDamping, times: number, accusers: number, fromMs = 0): number[] {
  const results = Array.from({ length: times }, (_, i) =>
    damping.onAccused(member(i % accusers), 'suspect', fromMs + i * 1_000, groupSize),
  );
  return results.filter((withdrawMs) => withdrawMs !== undefined);
}

describe('flap damping', () => {
  it('lets the first death be refuted, and withdraws at the next ones, each time for longer', () => {
    const damping = new FlapDamping();
    const diedAt = (nowMs: number) => damping.onAccused(member(1), 'dead', nowMs, groupSize);
    assert.equal(diedAt(0), undefined);
    assert.equal(diedAt(5_000), undefined, 'the same death');
    assert.equal(diedAt(100_000), 90_000);
    assert.equal(diedAt(210_000), 180_000, 'one death soon after the return is enough');
    assert.equal(diedAt(410_000), 360_000);
    assert.equal(diedAt(4_000_000), undefined, 'long ago');
    assert.equal(diedAt(4_020_000), 90_000);
  });

  it('does not count deaths that are far apart', () => {
    const damping = new FlapDamping();
    for (let nowMs = 0; nowMs < 3_000_000; nowMs += 400_000) {
      assert.equal(damping.onAccused(member(1), 'dead', nowMs, groupSize), undefined);
    }
  });

  it('withdraws when many different members accuse it within a minute', () => {
    assert.deepEqual(accuse(new FlapDamping(), 6, 4), [90_000]);
    assert.deepEqual(accuse(new FlapDamping(), 5, 5), [], 'not often enough');
    assert.deepEqual(accuse(new FlapDamping(), 30, 3), [], 'three accusers may be the ones with bad links');
    const damping = new FlapDamping();
    assert.deepEqual([...accuse(damping, 5, 5), ...accuse(damping, 5, 5, 120_000)], [], 'too slowly');
  });

  it('does not withdraw for accusations that a pause of this node explains', () => {
    const damping = new FlapDamping();
    const diedAt = (nowMs: number) => damping.onAccused(member(1), 'dead', nowMs, groupSize);
    for (let nowMs = 100_000; nowMs < 1_000_000; nowMs += 50_000) {
      // After a pause the node may receive the claim of its death before or after it detects the pause.
      assert.equal(diedAt(nowMs), undefined);
      damping.onPause(nowMs + 1);
      assert.equal(diedAt(nowMs + 2), undefined);
    }
  });

  it('does not withdraw in a network problem, when others are accused too', () => {
    const damping = new FlapDamping();
    for (let place = 40; place < 45; place++) damping.onOtherAccused(member(place), 0);
    assert.deepEqual(accuse(damping, 30, 5), []);
    assert.deepEqual(accuse(damping, 6, 5, 61_000), [90_000], 'the network problem is over');
  });

  it('never withdraws in a small group', () => {
    const damping = new FlapDamping();
    for (let i = 0; i < 20; i++) assert.equal(damping.onAccused(member(i), 'dead', i * 20_000, 7), undefined);
  });
});
