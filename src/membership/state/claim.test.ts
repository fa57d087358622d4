import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { NodeId } from '../../base/ids.ts';
import {
  type Claim,
  type ClaimKind,
  type MemberStatus,
  confirms,
  incarnationJumpMax,
  claimedState,
  supersedes,
} from './claim.ts';

const id = 'a'.repeat(32) as NodeId;
const claim = (kind: ClaimKind, incarnation: number, generation = 1): Claim => ({
  ...{ kind, id, generation, incarnation, by: id, refused: false, entry: undefined },
});
const standing = (state: MemberStatus['state'], incarnation: number, generation = 1): MemberStatus => ({
  ...{ state, incarnation, generation },
});

const anyClaim = fc
  .tuple(fc.constantFrom<ClaimKind>('join', 'alive', 'suspect', 'dead', 'left'), fc.nat(4), fc.nat(3))
  .map(([kind, incarnation, generation]) => claim(kind, incarnation, generation));

describe('the order of claims', () => {
  it("is SWIM's within one life", () => {
    // Alive(i) beats Suspect(j) and Alive(j) iff i > j.
    assert.ok(!supersedes(claim('alive', 3), standing('suspect', 3)));
    assert.ok(!supersedes(claim('alive', 3), standing('alive', 3)));
    assert.ok(supersedes(claim('alive', 4), standing('suspect', 3)));
    // Suspect(i) beats Suspect(j) iff i > j, and Alive(j) iff i >= j.
    assert.ok(supersedes(claim('suspect', 3), standing('alive', 3)));
    assert.ok(!supersedes(claim('suspect', 3), standing('suspect', 3)));
    assert.ok(!supersedes(claim('suspect', 2), standing('alive', 3)));
    // Dead beats what is not newer, and only a higher incarnation brings it back.
    assert.ok(supersedes(claim('dead', 3), standing('suspect', 3)));
    assert.ok(!supersedes(claim('alive', 3), standing('dead', 3)));
    assert.ok(supersedes(claim('alive', 4), standing('dead', 3)));
  });

  it('puts a later life above everything that was said of an earlier one', () => {
    assert.ok(supersedes(claim('alive', 0, 2), standing('dead', 9, 1)));
    assert.ok(!supersedes(claim('dead', 9, 1), standing('alive', 0, 2)));
  });

  it('does not let an incarnation leap so far that it could not be refuted', () => {
    assert.ok(supersedes(claim('dead', incarnationJumpMax), standing('alive', 0)));
    assert.ok(!supersedes(claim('dead', incarnationJumpMax + 1), standing('alive', 0)));
  });

  it('leads to the same end whatever the order of arrival', () => {
    const settle = (claims: readonly Claim[]): MemberStatus => {
      let known = standing('alive', 0, 0);
      for (const { kind, incarnation, generation } of claims) {
        if (supersedes(claim(kind, incarnation, generation), known))
          known = standing(claimedState(kind), incarnation, generation);
      }
      return known;
    };
    fc.assert(
      fc.property(fc.array(anyClaim, { maxLength: 8 }), fc.infiniteStream(fc.nat()), (claims, keys) => {
        const shuffled = claims
          .map((one) => ({ one, key: keys.next().value as number }))
          .toSorted((a, b) => a.key - b.key);
        assert.deepEqual(settle(shuffled.map(({ one }) => one)), settle(claims));
      }),
    );
  });

  it('never both supersedes and confirms', () => {
    fc.assert(
      fc.property(anyClaim, anyClaim, (a, b) => {
        const known = standing(claimedState(b.kind), b.incarnation, b.generation);
        assert.ok(!(supersedes(a, known) && confirms(a, known)));
      }),
    );
  });
});
