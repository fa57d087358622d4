import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeIdFrom } from '../base/ids.ts';
import { FlapDamping } from './flap-damping.ts';

const life = (place: number, generation = 1) => ({ id: nodeIdFrom(new Uint8Array(16).fill(place)), generation });
const [bad, good] = [life(1), life(2)];
const groupSize = 32;

describe('flap damping', () => {
  it('heals one false death at once, and holds the next returns, each for longer', () => {
    const damping = new FlapDamping(100);
    assert.equal(damping.isHeld(bad, 1_000, groupSize), false);
    for (const [returnedMs, heldMs] of [
      [1_000, 45_000],
      [100_000, 90_000],
      [300_000, 180_000],
      [600_000, 180_000],
    ] as const) {
      damping.returned(bad, returnedMs);
      assert.equal(damping.isHeld(bad, returnedMs + 10_000, groupSize), true);
      assert.equal(damping.isHeld(bad, returnedMs + 9_999 + heldMs, groupSize), true);
      assert.equal(damping.isHeld(bad, returnedMs + 10_001 + heldMs, groupSize), false);
    }
  });

  it('starts anew with a new life', () => {
    const damping = new FlapDamping(100);
    damping.returned(bad, 0);
    assert.equal(damping.isHeld(bad, 1_000, groupSize), true);
    assert.equal(damping.isHeld(life(1, 2), 1_000, groupSize), false);
  });

  it('takes one that is accused by many for flapping, and none of its accusers', () => {
    const damping = new FlapDamping(100);
    for (let i = 0; i < 10; i++) damping.refuted(bad, life(10 + (i % 5)), i * 1_000);
    assert.equal(damping.isFlapping(bad, 10_000, groupSize), true);
    for (let i = 0; i < 5; i++) assert.equal(damping.isHeld(life(10 + i), 10_000, groupSize), false);
  });

  it('takes one that falsely accuses many for flapping, and none of the accused', () => {
    const damping = new FlapDamping(100);
    for (let i = 0; i < 10; i++) damping.refuted(life(10 + (i % 5)), bad, i * 1_000);
    assert.equal(damping.isFlapping(bad, 10_000, groupSize), true);
    for (let i = 0; i < 5; i++) assert.equal(damping.isHeld(life(10 + i), 10_000, groupSize), false);
  });

  it('forgives: what happens now and then does not add up', () => {
    const damping = new FlapDamping(100);
    for (let i = 0; i < 20; i++) damping.refuted(bad, good, i * 300_000);
    assert.equal(damping.isHeld(bad, 20 * 300_000, groupSize), false);
  });

  it('never damps in a small group', () => {
    const damping = new FlapDamping(100);
    for (let i = 0; i < 10; i++) damping.returned(bad, i);
    assert.equal(damping.isFlapping(bad, 10, 5), false);
    assert.equal(damping.isHeld(bad, 10, 5), false);
  });

  it('holds nobody when many come and go', () => {
    const damping = new FlapDamping(100);
    for (let place = 0; place < 5; place++) damping.returned(life(place), 0);
    for (let place = 0; place < 5; place++) assert.equal(damping.isHeld(life(place), 1_000, groupSize), false);
  });

  it('gives way when others keep believing in a member', () => {
    const damping = new FlapDamping(100);
    damping.returned(bad, 0);
    assert.equal(damping.isHeld(bad, 1_000, groupSize), true);
    for (let i = 0; i < 3; i++) assert.equal(damping.contradicted(bad), false);
    assert.equal(damping.contradicted(bad), true);
    assert.equal(damping.isHeld(bad, 2_000, groupSize), false);
  });
});
