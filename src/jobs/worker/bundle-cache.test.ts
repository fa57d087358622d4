import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, success } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import type { RegistryEntry } from '../../base/registry.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { BundleCache } from './bundle-cache.ts';
import { encoder, fakeBundleHash, timelineClock } from '../../../test/support/jobs/worker-harness.ts';
import { registryEpoch } from '../../base/registry-epoch.ts';

function bed(bytesMax: number) {
  const timeline = new Timeline();
  const clock = timelineClock(timeline);
  const stored = new Map<string, Uint8Array>();
  let fetchCount = 0;
  const cache = new BundleCache(
    {
      ...{ clock, random: new Random('bundles'), sha256: fakeBundleHash },
      registry: {
        range: ({ from }, _options, done) => {
          fetchCount += 1;
          const value = stored.get(from.split('/')[3] ?? '');
          const meta = { createRevision: 1, modRevision: 1, version: 1, lease: undefined };
          const entries: RegistryEntry[] = value === undefined ? [] : [{ key: `${from}00`, value, ...meta }];
          clock.schedule(1, () => done(success({ epoch: registryEpoch('', 0), entries, more: false, revision: 1 })));
        },
      },
    },
    bytesMax,
  );
  const fetch = (hash: string): { outcome?: Outcome<Uint8Array> } => {
    const held: { outcome?: Outcome<Uint8Array> } = {};
    cache.fetch(hash, (outcome) => {
      held.outcome = outcome;
    });
    return held;
  };
  const store = (text: string): string => {
    const hash = fakeBundleHash(encoder.encode(text));
    stored.set(hash, encoder.encode(text));
    return hash;
  };
  return { timeline, cache, stored, fetch, store, fetchCount: () => fetchCount };
}

test('concurrent requests for a bundle share one fetch', () => {
  const { timeline, fetch, store, cache, fetchCount } = bed(1_000);
  const hash = store('code');
  const held = [fetch(hash), fetch(hash)];
  timeline.runUntil(10);
  assert.deepEqual(
    held.map(({ outcome }) => outcome?.ok),
    [true, true],
  );
  assert.equal(fetchCount(), 1);
  assert.deepEqual(cache.get(hash), encoder.encode('code'));
});

test('a bundle cache rejects code that does not match its hash at once and does not cache it', () => {
  const { timeline, fetch, store, stored, cache, fetchCount } = bed(1_000);
  const hash = store('code');
  stored.set(hash, encoder.encode('other code'));
  const held = fetch(hash);
  timeline.runUntil(10);
  assert.equal(held.outcome?.ok === false && held.outcome.error.code, 'BUNDLE_INVALID');
  assert.equal(fetchCount(), 1);
  assert.equal(cache.get(hash), undefined);
});

test('a bundle cache retries the fetch of a bundle that is not stored yet', () => {
  const { timeline, fetch, store, stored } = bed(1_000);
  const hash = store('code');
  stored.clear();
  const held = fetch(hash);
  timeline.runUntil(200);
  store('code');
  timeline.runUntil(20_000);
  assert.equal(held.outcome?.ok, true);
});

test('a full bundle cache drops the least recently used bundle', () => {
  const { timeline, fetch, store, cache } = bed(25);
  const [a, b, c] = [store('a'.repeat(10)), store('b'.repeat(10)), store('c'.repeat(10))];
  fetch(a);
  fetch(b);
  timeline.runUntil(10);
  assert.ok(cache.get(a));
  fetch(c);
  timeline.runUntil(20);
  assert.ok(cache.get(a) && cache.get(c));
  assert.equal(cache.get(b), undefined);
});
