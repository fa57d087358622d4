import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { nodeIdFrom } from '../../base/ids.ts';
import type { RegistryEpoch } from '../../base/registry.ts';
import { registryEpoch } from '../../base/registry-epoch.ts';
import { ServingLeases } from './serving-leases.ts';

const a = nodeIdFrom(new Uint8Array(16).fill(1));
const b = nodeIdFrom(new Uint8Array(16).fill(2));

function startedLeases(leadingSinceMs = 0): ServingLeases {
  const leases = new ServingLeases(1_000);
  leases.startLeadership(leadingSinceMs);
  return leases;
}

describe('serving leases', () => {
  test('a lease is valid for its length, uncertain up to 1.1 of it, then expired', () => {
    const leases = startedLeases();
    assert.equal(leases.renew(5_000, a, 1), 'granted');
    assert.equal(leases.status(5_999, a, 1), 'valid');
    assert.equal(leases.nextChangeMs(5_999, a, 1), 6_000);
    assert.equal(leases.status(6_000, a, 1), 'uncertain');
    assert.equal(leases.nextChangeMs(6_000, a, 1), 6_100);
    assert.equal(leases.status(6_099, a, 1), 'uncertain');
    assert.equal(leases.status(6_100, a, 1), 'expired');
    assert.equal(leases.nextChangeMs(6_100, a, 1), undefined);
  });

  test('a new leadership waits until the unknown grants of its predecessors have expired', () => {
    const leases = startedLeases();
    leases.renew(100, a, 3);
    leases.startLeadership(20_000);
    assert.equal(leases.status(20_000, a, 3), 'uncertain');
    assert.equal(leases.status(21_099, a, 3), 'uncertain');
    assert.equal(leases.status(21_100, a, 3), 'expired');
    assert.equal(leases.status(20_500, b, 0), 'uncertain', 'also a node that this leader does not know');
  });

  test('a later generation proves the end of the earlier ones, which get no lease from then on', () => {
    const leases = startedLeases();
    leases.renew(5_000, a, 1);
    leases.onGenerationSeen(5_010, a, 2);
    assert.equal(leases.status(5_011, a, 1), 'expired');
    assert.equal(leases.renew(5_012, a, 1), 'superseded');
    assert.equal(leases.status(5_013, a, 2), 'expired', 'no leader has granted it a lease, and this leadership is old');
    assert.equal(leases.renew(5_014, a, 2), 'granted');
    assert.equal(leases.status(5_015, a, 2), 'valid');
    assert.equal(leases.generationOf(a), 2);
  });

  test('proof of exit expires a lease at once, and a request sent before the exit does not renew it', () => {
    const leases = startedLeases();
    leases.renew(5_000, a, 1);
    leases.markGone(5_001, a, 1);
    assert.equal(leases.status(5_001, a, 1), 'expired');
    assert.equal(leases.renew(5_002, a, 1), 'superseded');
    leases.markGone(5_003, a, 0);
    assert.equal(leases.status(5_003, a, 1), 'expired', 'proof about an earlier generation changes nothing');
    assert.equal(leases.renew(7_001, a, 1), 'granted', 'the proof was wrong, and its containers were reassigned');
    assert.equal(leases.status(7_001, a, 1), 'valid');
  });

  test('a proof of exit counts for the next leadership for one lease', () => {
    const leases = startedLeases();
    leases.markGone(5_000, a, 1);
    leases.startLeadership(5_500);
    assert.equal(leases.status(5_500, a, 1), 'expired');
    assert.equal(leases.status(5_500, b, 1), 'uncertain', 'the grants of the former leader are unknown');
    leases.startLeadership(6_000);
    assert.equal(leases.status(6_000, a, 1), 'uncertain', 'a proof this old may have been refuted since');
  });

  test('a node gets no lease during a takeover, and afterwards one with the revision of the takeover', () => {
    const leases = startedLeases();
    leases.renew(5_000, a, 1);
    leases.blockGrants(6_200, a, 1);
    leases.blockGrants(6_200, a, 1);
    assert.equal(leases.renew(6_201, a, 1), 'blocked');
    assert.equal(leases.status(6_201, a, 1), 'expired');
    leases.unblockGrants(a, 1, 77);
    assert.equal(leases.renew(6_202, a, 1), 'blocked');
    leases.unblockGrants(a, 1, undefined);
    assert.equal(leases.renew(6_203, a, 1), 'granted');
    assert.equal(leases.requiredRevision(a), 77);
    assert.equal(leases.requiredRevision(b), 0);
  });

  test('a node whose address table is behind gets no lease and expires', () => {
    const leases = startedLeases(5_000);
    leases.requireRevisionOfAll(50);
    assert.equal(leases.renew(5_000, a, 1, 50), 'granted');
    assert.equal(leases.renew(5_000, b, 1, 49), 'behind');
    leases.blockGrants(5_100, b, 1);
    leases.unblockGrants(b, 1, 60);
    assert.equal(leases.renew(5_200, b, 1, 59), 'behind');
    assert.equal(leases.status(6_099, b, 1), 'uncertain', 'the former leader may have granted it a lease');
    assert.equal(leases.status(6_100, b, 1), 'expired');
    assert.equal(leases.renew(6_200, b, 1, 60), 'granted');
    leases.startLeadership(7_000);
    assert.equal(leases.renew(7_000, b, 1, 0), 'granted', 'required revisions end with their leadership');
  });

  test('a full table drops expired nodes only', () => {
    const leases = startedLeases();
    const idOf = (index: number): typeof a => {
      const bytes = new Uint8Array(16);
      new DataView(bytes.buffer).setUint32(0, index);
      return nodeIdFrom(bytes);
    };
    for (let index = 0; index < 10_000; index++) assert.equal(leases.renew(5_000, idOf(index), 1), 'granted');
    assert.equal(leases.renew(5_500, idOf(10_000), 1), 'full');
    assert.equal(leases.status(5_500, idOf(10_000), 1), 'expired');
    leases.renew(6_000, idOf(7), 1);
    assert.equal(leases.renew(6_500, idOf(10_000), 1), 'granted');
    assert.equal(leases.status(6_500, idOf(7), 1), 'valid');
  });
});

test('a lease is granted to a node whose table follows this very registry', () => {
  const leases = startedLeases();
  const own = registryEpoch('aaaaaaaaaaaaaaaa', 1);
  const codeFor = (epoch: RegistryEpoch | undefined): string => {
    const outcome = leases.grant(1, { node: a, generation: 1, seen: { revision: 5, epoch } }, own);
    return outcome.ok ? 'granted' : outcome.error.code;
  };
  assert.equal(codeFor(own), 'granted');
  assert.equal(codeFor(undefined), 'granted', 'the table is not loaded yet, so it owns nothing');
  assert.equal(codeFor(registryEpoch('aaaaaaaaaaaaaaaa', 0)), 'PRECONDITION', 'it has not seen the restore');
  assert.equal(codeFor(registryEpoch('bbbbbbbbbbbbbbbb', 1)), 'FENCED', 'another group: it stops at once');
});
