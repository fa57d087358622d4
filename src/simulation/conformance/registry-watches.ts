/** The conformance suite of the Registry port, watches: nothing missed, nothing told twice, ends said aloud. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { onlyKey, withPrefix } from '../../base/registry.ts';
import { type Open, text, utf8 } from './harness.ts';
import { type RegistryHarness, everything, put, remove, scene } from './registry-calls.ts';

export function describeWatches(open: Open<RegistryHarness>): void {
  describeOrder(open);
  describeBeginnings(open);
  describeEnds(open);
}

function describeOrder(open: Open<RegistryHarness>): void {
  it('tells from a revision on, that one included, what has been and what comes, of its range only', async (t) => {
    const { here, there, watch } = await scene(t, open);
    await here.write(put('a/0'));
    const { revision } = await here.write(put('a/1', 'x'), put('b/1'));
    await here.write(put('b/2'));
    const watched = watch(withPrefix('a/'), revision);
    await watched.until(({ seen }) => seen.length === 1);
    await there.write(put('b/3'), put('a/2', 'y'), remove('a/1'), put('a/3', 'z'));
    await here.write(remove(everything));
    await here.write(put('a/1', 'again'));
    await watched.until(({ seen }) => seen.length === 4);
    assert.deepEqual(watched.seen, ['+a/1=x', '+a/2=y -a/1 +a/3=z', '-a/0 -a/2 -a/3', '+a/1=again']);
    assert.deepEqual(watched.revisions, [revision, revision + 2, revision + 3, revision + 4]);
    assert.deepEqual(watched.changes[0], {
      kind: 'put',
      entry: {
        key: 'a/1',
        value: utf8.encode('x'),
        createRevision: revision,
        modRevision: revision,
        version: 1,
        lease: undefined,
      },
    });
    assert.deepEqual(watched.changes[2], { kind: 'delete', key: 'a/1', modRevision: revision + 2 });
  });

  it('watches one key, and several watches of one client do not disturb each other', async (t) => {
    const { here, watch } = await scene(t, open);
    const { revision } = await here.write(put('start'));
    const one = watch(onlyKey('k'), revision + 1);
    const all = watch(everything, revision + 1);
    const none = watch({ from: 'z', to: 'a' }, revision + 1);
    for (const key of ['k', 'kk', 'k\0', 'j', 'k']) await here.write(put(key));
    await all.until(({ seen }) => seen.length === 5);
    await one.until(({ seen }) => seen.length === 2);
    assert.deepEqual(one.seen, ['+k=', '+k=']);
    assert.deepEqual(none.seen, []);
  });

  it('keeps large changes of one revision together', async (t) => {
    const { here, watch } = await scene(t, open);
    const { revision } = await here.write(put('start'));
    const large = 'x'.repeat(700_000);
    const watched = watch(everything, revision + 1);
    for (let i = 0; i < 4; i++) await here.write(put('a', `${i}${large}`), put('b', large), put('c'), remove('start'));
    await watched.until(({ revisions }) => revisions.length === 4);
    assert.deepEqual(
      watched.changes.map((change) => (change.kind === 'put' ? change.entry.key : '-')).join(''),
      'abc-abcabcabc',
    );
    const late = watch(everything, revision);
    await late.until(({ revisions }) => revisions.length === 5);
    assert.deepEqual(late.revisions, [revision, ...watched.revisions]);
  });
}

function describeBeginnings(open: Open<RegistryHarness>): void {
  it('misses nothing and repeats nothing between a range and a watch from the revision after it', async (t) => {
    const { world, here, there, watch } = await scene(t, open);
    const writes = (async () => {
      for (let i = 0; i < 60; i++) await there.write(put(`k${i % 7}`, String(i)));
    })();
    const { entries, revision } = await here.range();
    const model = new Map(entries.map(({ key, value }) => [key, text(value)]));
    const watched = watch(everything, revision + 1);
    await world.settle(writes);
    const { revision: last } = await there.write(put('end'));
    await watched.until(({ revisions }) => revisions.at(-1) === last);
    for (const change of watched.changes) {
      assert.ok(change.kind === 'put');
      model.set(change.entry.key, text(change.entry.value));
    }
    assert.deepEqual(
      [...model].map(([key, value]) => `${key}=${value}`).toSorted(),
      (await here.contents()).split(' ').toSorted(),
    );
    assert.deepEqual(
      watched.revisions,
      Array.from({ length: last - revision }, (_, i) => revision + 1 + i),
    );
  });

  it('waits for a revision that is yet to come', async (t) => {
    const { here, watch } = await scene(t, open);
    const { revision } = await here.write(put('start'));
    const watched = watch(everything, revision + 3);
    for (let i = 1; i <= 4; i++) await here.write(put(`k${i}`));
    await watched.until(({ seen }) => seen.length === 2);
    assert.deepEqual(watched.seen, ['+k3=', '+k4=']);
  });

  it('is resumed from the revision after the last one seen', async (t) => {
    const { here, watch } = await scene(t, open);
    let next = (await here.write(put('start'))).revision + 1;
    const seen: string[] = [];
    for (let round = 0; round < 4; round++) {
      const watched = watch(everything, next);
      for (let i = 0; i < 5; i++) await here.write(put('n', String(round * 5 + i)));
      await watched.until(({ revisions }) => revisions.length >= 3);
      watched.cancel();
      seen.push(...watched.seen);
      next = watched.revisions.at(-1)! + 1;
    }
    const last = watch(everything, next);
    await here.write(put('end'));
    await last.until(({ seen }) => seen.at(-1) === '+end=');
    assert.deepEqual([...seen, ...last.seen], [...Array.from({ length: 20 }, (_, i) => `+n=${i}`), '+end=']);
  });
}

function describeEnds(open: Open<RegistryHarness>): void {
  it('says nothing after it was cancelled; cancelling twice is harmless', async (t) => {
    const { here, watch } = await scene(t, open);
    const { revision } = await here.write(put('a'));
    const cancelled = watch(everything, revision);
    cancelled.cancel();
    const kept = watch(everything, revision);
    const later = watch(everything, revision);
    await later.until(({ seen }) => seen.length === 1);
    later.cancel();
    await here.write(put('b'));
    await kept.until(({ seen }) => seen.length === 2);
    cancelled.cancel();
    assert.deepEqual([cancelled.seen, later.seen], [[], ['+a=']]);
  });

  it('says that history is gone, once, and from there on misses nothing again', async (t) => {
    const { world, here, watch } = await scene(t, open);
    if (world.compact === undefined) {
      t.skip('this implementation cannot be made to forget');
      return;
    }
    const { revision } = await here.write(put('a', '1'));
    const present = watch(everything, revision);
    await here.write(put('a', '2'));
    await here.write(remove('a'));
    await here.write(put('b', '3'));
    await present.until(({ seen }) => seen.length === 4);
    await world.settle(world.compact());
    const old = watch(everything, revision);
    await old.until(({ compactions }) => compactions.length > 0);
    const { entries, revision: now } = await here.range();
    assert.ok(old.compactions[0]! > revision && old.compactions[0]! <= now + 1, String(old.compactions));
    assert.equal(entries.length > 0, true);
    const fresh = watch(everything, now + 1);
    await here.write(put('c', '4'));
    await fresh.until(({ seen }) => seen.length === 1);
    assert.deepEqual(fresh.seen, ['+c=4']);
    // One that was not behind goes on.
    await present.until(({ seen }) => seen.at(-1) === '+c=4');
    assert.deepEqual([old.seen, old.compactions.length, present.compactions.length], [[], 1, 0]);
  });
}
