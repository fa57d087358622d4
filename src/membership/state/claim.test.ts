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
const status = (state: MemberStatus['state'], incarnation: number, generation = 1): MemberStatus => ({
  ...{ state, incarnation, generation },
});

const anyClaim = fc
  .tuple(fc.constantFrom<ClaimKind>('join', 'alive', 'suspect', 'dead', 'left'), fc.nat(4), fc.nat(3))
  .map(([kind, incarnation, generation]) => claim(kind, incarnation, generation));

describe('the order of claims', () => {
  it('is that of SWIM within one generation', () => {
    // Alive(i) beats Suspect(j) and Alive(j) iff i > j.
    assert.ok(!supersedes(claim('alive', 3), status('suspect', 3)));
    assert.ok(!supersedes(claim('alive', 3), status('alive', 3)));
    assert.ok(supersedes(claim('alive', 4), status('suspect', 3)));
    // Suspect(i) beats Suspect(j) iff i > j, and Alive(j) iff i >= j.
    assert.ok(supersedes(claim('suspect', 3), status('alive', 3)));
    assert.ok(!supersedes(claim('suspect', 3), status('suspect', 3)));
    assert.ok(!supersedes(claim('suspect', 2), status('alive', 3)));
    // Dead beats every claim that is not newer; only a higher incarnation beats it.
    assert.ok(supersedes(claim('dead', 3), status('suspect', 3)));
    assert.ok(!supersedes(claim('alive', 3), status('dead', 3)));
    assert.ok(supersedes(claim('alive', 4), status('dead', 3)));
  });

  it('puts every claim of a higher generation above those of a lower one', () => {
    assert.ok(supersedes(claim('alive', 0, 2), status('dead', 9, 1)));
    assert.ok(!supersedes(claim('dead', 9, 1), status('alive', 0, 2)));
  });

  it('refuses an incarnation that is too high to be refuted', () => {
    assert.ok(supersedes(claim('dead', incarnationJumpMax), status('alive', 0)));
    assert.ok(!supersedes(claim('dead', incarnationJumpMax + 1), status('alive', 0)));
  });

  it('leads to the same status whatever the order of arrival', () => {
    const applyAll = (claims: readonly Claim[]): MemberStatus => {
      let known = status('alive', 0, 0);
      for (const { kind, incarnation, generation } of claims) {
        if (supersedes(claim(kind, incarnation, generation), known))
          known = status(claimedState(kind), incarnation, generation);
      }
      return known;
    };
    fc.assert(
      fc.property(fc.array(anyClaim, { maxLength: 8 }), fc.infiniteStream(fc.nat()), (claims, keys) => {
        const shuffled = claims
          .map((one) => ({ one, key: keys.next().value as number }))
          .toSorted((a, b) => a.key - b.key);
        assert.deepEqual(applyAll(shuffled.map(({ one }) => one)), applyAll(claims));
      }),
    );
  });

  it('never both supersedes and confirms', () => {
    fc.assert(
      fc.property(anyClaim, anyClaim, (a, b) => {
        const known = status(claimedState(b.kind), b.incarnation, b.generation);
        assert.ok(!(supersedes(a, known) && confirms(a, known)));
      }),
    );
  });
});
