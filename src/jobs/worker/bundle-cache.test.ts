import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, success } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import type { RegistryEntry } from '../../base/registry.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { BundleCache } from './bundle-cache.ts';
import { encoder, fakeBundleHash, timelineClock } from '../../../test/support/jobs/worker-harness.ts';

function scene(bytesMax: number) {
  const timeline = new Timeline();
  const clock = timelineClock(timeline);
  const stored = new Map<string, Uint8Array>();
  let fetches = 0;
  const cache = new BundleCache(
    {
      ...{ clock, random: new Random('bundles'), sha256: fakeBundleHash },
      registry: {
        range: ({ from }, _options, done) => {
          fetches += 1;
          const value = stored.get(from.split('/')[3] ?? '');
          const meta = { createRevision: 1, modRevision: 1, version: 1, lease: undefined };
          const entries: RegistryEntry[] = value === undefined ? [] : [{ key: `${from}00`, value, ...meta }];
          clock.schedule(1, () => done(success({ entries, more: false, revision: 1 })));
        },
      },
    },
    bytesMax,
  );
  const want = (hash: string): { outcome?: Outcome<Uint8Array> } => {
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
  return { timeline, cache, stored, want, store, fetches: () => fetches };
}

test('who wants the same waits for one fetch', () => {
  const { timeline, want, store, cache, fetches } = scene(1_000);
  const hash = store('code');
  const held = [want(hash), want(hash)];
  timeline.runUntil(10);
  assert.deepEqual(
    held.map(({ outcome }) => outcome?.ok),
    [true, true],
  );
  assert.equal(fetches(), 1);
  assert.deepEqual(cache.get(hash), encoder.encode('code'));
});

test('code that is not what its hash says is refused at once and not kept', () => {
  const { timeline, want, store, stored, cache, fetches } = scene(1_000);
  const hash = store('code');
  stored.set(hash, encoder.encode('other code'));
  const held = want(hash);
  timeline.runUntil(10);
  assert.equal(held.outcome?.ok === false && held.outcome.error.code, 'BUNDLE_INVALID');
  assert.equal(fetches(), 1);
  assert.equal(cache.get(hash), undefined);
});

test('code that is not there yet is looked for again', () => {
  const { timeline, want, store, stored } = scene(1_000);
  const hash = store('code');
  stored.clear();
  const held = want(hash);
  timeline.runUntil(200);
  store('code');
  timeline.runUntil(20_000);
  assert.equal(held.outcome?.ok, true);
});

test('the longest unused goes when there is no room', () => {
  const { timeline, want, store, cache } = scene(25);
  const [a, b, c] = [store('a'.repeat(10)), store('b'.repeat(10)), store('c'.repeat(10))];
  want(a);
  want(b);
  timeline.runUntil(10);
  assert.ok(cache.get(a));
  want(c);
  timeline.runUntil(20);
  assert.ok(cache.get(a) && cache.get(c));
  assert.equal(cache.get(b), undefined);
});
