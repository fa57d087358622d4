import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import { FlapDamping } from './flap-damping.ts';

const groupSize = 32;
const member = (place: number): NodeId => nodeIdFrom(new Uint8Array(16).fill(place));

/** One accusation per second, by so many in turn. */
function accuse(restraint: FlapDamping, times: number, accusers: number, fromMs = 0): number[] {
  const answers = Array.from({ length: times }, (_, i) =>
    restraint.onAccused(member(i % accusers), 'suspect', fromMs + i * 1_000, groupSize),
  );
  return answers.filter((answer) => answer !== undefined);
}

describe('restraint', () => {
  it('lets one death be refuted, and goes out at the next ones, each time for longer', () => {
    const restraint = new FlapDamping();
    const diedAt = (nowMs: number) => restraint.onAccused(member(1), 'dead', nowMs, groupSize);
    assert.equal(diedAt(0), undefined);
    assert.equal(diedAt(5_000), undefined, 'the same death');
    assert.equal(diedAt(100_000), 90_000);
    assert.equal(diedAt(210_000), 180_000, 'one death soon after the return is one too many');
    assert.equal(diedAt(410_000), 360_000);
    assert.equal(diedAt(4_000_000), undefined, 'long ago');
    assert.equal(diedAt(4_020_000), 90_000);
  });

  it('does not count deaths that are far apart', () => {
    const restraint = new FlapDamping();
    for (let nowMs = 0; nowMs < 3_000_000; nowMs += 400_000) {
      assert.equal(restraint.onAccused(member(1), 'dead', nowMs, groupSize), undefined);
    }
  });

  it('goes out when many different members accuse it within a minute', () => {
    assert.deepEqual(accuse(new FlapDamping(), 6, 4), [90_000]);
    assert.deepEqual(accuse(new FlapDamping(), 5, 5), [], 'not often enough');
    assert.deepEqual(accuse(new FlapDamping(), 30, 3), [], 'three accusers may be the ones with bad links');
    const restraint = new FlapDamping();
    assert.deepEqual([...accuse(restraint, 5, 5), ...accuse(restraint, 5, 5, 120_000)], [], 'too slowly');
  });

  it('finds a reason in its own sleep', () => {
    const restraint = new FlapDamping();
    const diedAt = (nowMs: number) => restraint.onAccused(member(1), 'dead', nowMs, groupSize);
    for (let nowMs = 100_000; nowMs < 1_000_000; nowMs += 50_000) {
      // Who wakes up may hear of its death before it notices that it slept, or afterwards.
      assert.equal(diedAt(nowMs), undefined);
      restraint.onPause(nowMs + 1);
      assert.equal(diedAt(nowMs + 2), undefined);
    }
  });

  it('finds a reason in the network when others are accused as well', () => {
    const restraint = new FlapDamping();
    for (let place = 40; place < 45; place++) restraint.onOtherAccused(member(place), 0);
    assert.deepEqual(accuse(restraint, 30, 5), []);
    assert.deepEqual(accuse(restraint, 6, 5, 61_000), [90_000], 'that is over');
  });

  it('does not weaken a small group', () => {
    const restraint = new FlapDamping();
    for (let i = 0; i < 20; i++) assert.equal(restraint.onAccused(member(i), 'dead', i * 20_000, 7), undefined);
  });
});
