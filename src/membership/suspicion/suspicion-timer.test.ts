import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { NodeId } from '../../base/ids.ts';
import { SuspicionTimer } from './suspicion-timer.ts';

const timing = { alpha: 4, beta: 6, confirmationsMax: 3, refusalsNeeded: 2 };
const node = (n: number) => String(n).padStart(32, '0') as NodeId;
const suspect = (members = 100, nowMs = 0) => new SuspicionTimer(nowMs, timing, members, 1_000);

describe('a suspicion', () => {
  it("follows Lifeguard's formula: 48 s alone, 8 s with three confirmations, in a group of a hundred", () => {
    const suspicion = suspect();
    const waits = [0, 1, 2, 3].map((accuser) => {
      suspicion.addAccuser(node(accuser), false);
      return Math.round(suspicion.deadlineMs);
    });
    assert.deepEqual(waits, [48_000, 28_000, 16_301, 8_000]);
  });

  it('is shortened by accusers and never extended, however many and however often they accuse', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(9), fc.boolean())), (accusations) => {
        const suspicion = suspect();
        let lastMs = Infinity;
        for (const [by, refused] of accusations) {
          suspicion.addAccuser(node(by), refused);
          assert.ok(suspicion.deadlineMs <= lastMs);
          lastMs = suspicion.deadlineMs;
        }
      }),
    );
  });

  it('counts an accuser once, and reports whether an accusation changes anything', () => {
    const suspicion = suspect();
    assert.equal(suspicion.addAccuser(node(1), false), true);
    assert.equal(suspicion.addAccuser(node(1), false), false);
    assert.equal(suspicion.addAccuser(node(1), true), true);
    assert.equal(suspicion.confirmations, 0);
  });

  it('ends at once when enough observers find the port closed, but not for one', () => {
    const suspicion = suspect(100, 5);
    suspicion.addAccuser(node(1), true);
    suspicion.addAccuser(node(1), true);
    assert.ok(suspicion.deadlineMs > 5);
    suspicion.addAccuser(node(2), true);
    assert.equal(suspicion.deadlineMs, 5);
  });

  it('lasts the short time when no other member can confirm it', () => {
    const suspicion = suspect(2);
    suspicion.addAccuser(node(1), false);
    assert.equal(suspicion.deadlineMs, 4_000);
  });

  it('does not count the time of a pause of this node', () => {
    const suspicion = suspect(2);
    suspicion.addAccuser(node(1), false);
    suspicion.discountPause(700);
    assert.equal(suspicion.deadlineMs, 4_700);
  });
});
