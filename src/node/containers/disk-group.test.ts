import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Outcome, success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { type RangeResult, type Registry, type TransactionResult, onlyKey } from '../../base/registry.ts';
import { registryEpoch } from '../../base/registry-epoch.ts';
import { registryOfGroup } from './disk-group.ts';

const [own, other] = ['aaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb'];
const clock = {
  schedule: (_delayMs: number, run: () => void) => {
    run();
    return () => {};
  },
} as unknown as Clock;

/** A registry of that group, which knows no key. */
function registryOf(group: string): { readonly registry: Pick<Registry, 'range' | 'transact'>; sent: number } {
  const epoch = registryEpoch(group, 0);
  const fake = {
    sent: 0,
    registry: {
      range: (_range: unknown, _options: unknown, done: (outcome: Outcome<RangeResult>) => void) => {
        fake.sent += 1;
        done(success({ epoch, entries: [], more: false, revision: 1 }));
      },
      transact: (_transaction: unknown, _options: unknown, done: (outcome: Outcome<TransactionResult>) => void) => {
        fake.sent += 1;
        done(success({ epoch, succeeded: false, revision: 1, results: [] }));
      },
    },
  };
  return fake;
}

/** Codes and effects of a read and a write. */
function outcomes(registry: Pick<Registry, 'range' | 'transact'>): readonly string[] {
  const seen: string[] = [];
  const note = (outcome: Outcome<unknown>): void =>
    void seen.push(outcome.ok ? 'ok' : `${outcome.error.code} ${outcome.error.stateChanged}`);
  registry.range(onlyKey('a'), {}, note);
  registry.transact({ compare: [], then: [], otherwise: [] }, {}, note);
  return seen;
}

describe('the registry of the group of this disk', () => {
  test('passes on the replies of its own group', () => {
    assert.deepEqual(outcomes(registryOfGroup(registryOf(own).registry, clock, () => own)), ['ok', 'ok']);
  });

  test('takes the reply of another group for an error, and says that a write may have happened there', () => {
    const registry = registryOfGroup(registryOf(other).registry, clock, () => own);
    assert.deepEqual(outcomes(registry), ['NO_QUORUM no', 'NO_QUORUM maybe']);
  });

  test('sends nothing while this node follows no registry', () => {
    const fake = registryOf(own);
    assert.deepEqual(outcomes(registryOfGroup(fake.registry, clock, () => undefined)), [
      'NO_QUORUM no',
      'NO_QUORUM no',
    ]);
    assert.equal(fake.sent, 0);
  });
});
