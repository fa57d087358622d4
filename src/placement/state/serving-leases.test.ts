import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { nodeIdFrom } from '../../base/ids.ts';
import { ServingLeases } from './serving-leases.ts';

const a = nodeIdFrom(new Uint8Array(16).fill(1));
const b = nodeIdFrom(new Uint8Array(16).fill(2));

function leases(beginMs = 0): ServingLeases {
  const made = new ServingLeases(1_000);
  made.begin(beginMs);
  return made;
}

describe('serving leases', () => {
  test('live for the lease, unsure up to 1.1 of it, then over', () => {
    const made = leases();
    assert.equal(made.renew(5_000, a, 1), 'granted');
    assert.equal(made.status(5_999, a, 1), 'live');
    assert.equal(made.nextChangeMs(5_999, a, 1), 6_000);
    assert.equal(made.status(6_000, a, 1), 'unsure');
    assert.equal(made.nextChangeMs(6_000, a, 1), 6_100);
    assert.equal(made.status(6_099, a, 1), 'unsure');
    assert.equal(made.status(6_100, a, 1), 'over');
    assert.equal(made.nextChangeMs(6_100, a, 1), undefined);
  });

  test('a new leadership knows nothing of the grants before it, and waits for their end', () => {
    const made = leases();
    made.renew(100, a, 3);
    made.begin(20_000);
    assert.equal(made.status(20_000, a, 3), 'unsure');
    assert.equal(made.status(21_099, a, 3), 'unsure');
    assert.equal(made.status(21_100, a, 3), 'over');
    assert.equal(made.status(20_500, b, 0), 'unsure', 'also of one that it has never heard of');
  });

  test('a later life proves the end of the earlier ones, which are refused from then on', () => {
    const made = leases();
    made.renew(5_000, a, 1);
    made.lifeSeen(5_010, a, 2);
    assert.equal(made.status(5_011, a, 1), 'over');
    assert.equal(made.renew(5_012, a, 1), 'superseded');
    assert.equal(made.status(5_013, a, 2), 'over', 'nobody granted it anything, and this leadership is old');
    assert.equal(made.renew(5_014, a, 2), 'granted');
    assert.equal(made.status(5_015, a, 2), 'live');
    assert.equal(made.generationOf(a), 2);
  });

  test('proof ends a life at once, and what it asked before its end does not bring it back', () => {
    const made = leases();
    made.renew(5_000, a, 1);
    made.markGone(5_001, a, 1);
    assert.equal(made.status(5_001, a, 1), 'over');
    assert.equal(made.renew(5_002, a, 1), 'superseded');
    made.markGone(5_003, a, 0);
    assert.equal(made.status(5_003, a, 1), 'over', 'of an earlier life: no news');
    assert.equal(made.renew(7_001, a, 1), 'granted', 'the proof was wrong, and everything it had is given away');
    assert.equal(made.status(7_001, a, 1), 'live');
  });

  test('whoever ended together with the leader is gone for the next one, for a while', () => {
    const made = leases();
    made.markGone(5_000, a, 1);
    made.begin(5_500);
    assert.equal(made.status(5_500, a, 1), 'over');
    assert.equal(made.status(5_500, b, 1), 'unsure', 'nobody knows what the leader before has granted');
    made.begin(6_000);
    assert.equal(made.status(6_000, a, 1), 'unsure', 'so old a proof may have been refuted since');
  });

  test('while something is taken from a node it is granted nothing, and then told what it has to see', () => {
    const made = leases();
    made.renew(5_000, a, 1);
    made.blockGrants(6_200, a, 1);
    made.blockGrants(6_200, a, 1);
    assert.equal(made.renew(6_201, a, 1), 'disputed');
    assert.equal(made.status(6_201, a, 1), 'over');
    made.unblockGrants(a, 1, 77);
    assert.equal(made.renew(6_202, a, 1), 'disputed');
    made.unblockGrants(a, 1, undefined);
    assert.equal(made.renew(6_203, a, 1), 'granted');
    assert.equal(made.requiredRevision(a), 77);
    assert.equal(made.requiredRevision(b), 0);
  });

  test('a node whose address table is behind is granted nothing, and is over before long', () => {
    const made = leases(5_000);
    made.requireRevisionOfAll(50);
    assert.equal(made.renew(5_000, a, 1, 50), 'granted');
    assert.equal(made.renew(5_000, b, 1, 49), 'behind');
    made.blockGrants(5_100, b, 1);
    made.unblockGrants(b, 1, 60);
    assert.equal(made.renew(5_200, b, 1, 59), 'behind');
    assert.equal(made.status(6_099, b, 1), 'unsure', 'the leader before may have granted it something');
    assert.equal(made.status(6_100, b, 1), 'over');
    assert.equal(made.renew(6_200, b, 1, 60), 'granted');
    made.begin(7_000);
    assert.equal(made.renew(7_000, b, 1, 0), 'granted', 'what was demanded ended with that leadership');
  });

  test('there is a bound, and only who is over without a doubt is forgotten', () => {
    const made = leases();
    const idOf = (index: number): typeof a => {
      const bytes = new Uint8Array(16);
      new DataView(bytes.buffer).setUint32(0, index);
      return nodeIdFrom(bytes);
    };
    for (let index = 0; index < 10_000; index++) assert.equal(made.renew(5_000, idOf(index), 1), 'granted');
    assert.equal(made.renew(5_500, idOf(10_000), 1), 'full');
    assert.equal(made.status(5_500, idOf(10_000), 1), 'over');
    made.renew(6_000, idOf(7), 1);
    assert.equal(made.renew(6_500, idOf(10_000), 1), 'granted');
    assert.equal(made.status(6_500, idOf(7), 1), 'live');
  });
});
