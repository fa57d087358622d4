import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Random } from '../base/random.ts';
import { registryEpoch } from '../base/registry-epoch.ts';
import { type ServingLeaseEffect, ServingLeaseRenewal } from './serving-lease-renewal.ts';

const [first, second] = [registryEpoch('aaaaaaaaaaaaaaaa', 0), registryEpoch('bbbbbbbbbbbbbbbb', 0)];
const grant = { kind: 'granted', leaseMs: 1_000, term: 1, revokedRevision: 0 } as const;

describe('the serving lease renewal', () => {
  test('ends at once when the table follows another registry, until the leader of that one grants it', () => {
    const renewal = new ServingLeaseRenewal(new Random('epochs'), 1_000);
    const reports: boolean[] = [];
    let requestId = 0;
    const step = (nowMs: number, input: Parameters<ServingLeaseRenewal['step']>[1]): void => {
      for (const effect of renewal.step(nowMs, input) as readonly ServingLeaseEffect[]) {
        if (effect.kind === 'report') reports.push(effect.holds);
        if (effect.kind === 'request') requestId = effect.id;
      }
    };
    step(0, { kind: 'start' });
    step(1, { kind: 'applied', revision: 7, epoch: first });
    step(2, { kind: 'replied', id: requestId, reply: { ...grant, term: 12 } });
    assert.equal(renewal.holds(3), true);

    step(100, { kind: 'leaderChanged' });
    const sentBefore = requestId;
    step(101, { kind: 'applied', revision: 3, epoch: second });
    assert.deepEqual([renewal.holds(102), renewal.appliedRevision, renewal.epoch], [false, 3, second]);
    step(103, { kind: 'replied', id: sentBefore, reply: grant });
    assert.equal(renewal.holds(104), false, 'a grant that was requested for the former registry');

    step(200, { kind: 'leaderChanged' });
    step(201, { kind: 'replied', id: requestId, reply: grant });
    assert.equal(renewal.holds(202), true);
    assert.deepEqual(reports, [true, false, true]);
  });
});
