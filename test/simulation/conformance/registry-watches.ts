/** Conformance of Registry: watches miss nothing, repeat nothing and report their end. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { onlyKey, withPrefix } from '../../../src/base/registry.ts';
import { type OpenHarness, utf8Text, utf8 } from './harness.ts';
import { type RegistryHarness, allKeys, putOp, deleteOp, openRegistryScene } from './registry-harness.ts';

export function describeRegistryWatches(open: OpenHarness<RegistryHarness>): void {
  describeOrder(open);
  describeBeginnings(open);
  describeEnds(open);
}

function describeOrder(open: OpenHarness<RegistryHarness>): void {
  it('delivers past and future changes of its range from a revision on, that one included', async (t) => {
    const { here, there, watch } = await openRegistryScene(t, open);
    await here.write(putOp('a/0'));
    const { revision } = await here.write(putOp('a/1', 'x'), putOp('b/1'));
    await here.write(putOp('b/2'));
    const watched = watch(withPrefix('a/'), revision);
    await watched.until(({ seen }) => seen.length === 1);
    await there.write(putOp('b/3'), putOp('a/2', 'y'), deleteOp('a/1'), putOp('a/3', 'z'));
    await here.write(deleteOp(allKeys));
    await here.write(putOp('a/1', 'again'));
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

  it('delivers the changes of one key, independent of other watches of the client', async (t) => {
    const { here, watch } = await openRegistryScene(t, open);
    const { revision } = await here.write(putOp('start'));
    const one = watch(onlyKey('k'), revision + 1);
    const all = watch(allKeys, revision + 1);
    const none = watch({ from: 'z', to: 'a' }, revision + 1);
    for (const key of ['k', 'kk', 'k\0', 'j', 'k']) await here.write(putOp(key));
    await all.until(({ seen }) => seen.length === 5);
    await one.until(({ seen }) => seen.length === 2);
    assert.deepEqual(one.seen, ['+k=', '+k=']);
    assert.deepEqual(none.seen, []);
  });

  it('delivers large changes of one revision together', async (t) => {
    const { here, watch } = await openRegistryScene(t, open);
    const { revision } = await here.write(putOp('start'));
    const large = 'x'.repeat(700_000);
    const watched = watch(allKeys, revision + 1);
    for (let i = 0; i < 4; i++)
      await here.write(putOp('a', `${i}${large}`), putOp('b', large), putOp('c'), deleteOp('start'));
    await watched.until(({ revisions }) => revisions.length === 4);
    assert.deepEqual(
      watched.changes.map((change) => (change.kind === 'put' ? change.entry.key : '-')).join(''),
      'abc-abcabcabc',
    );
    const late = watch(allKeys, revision);
    await late.until(({ revisions }) => revisions.length === 5);
    assert.deepEqual(late.revisions, [revision, ...watched.revisions]);
  });
}

function describeBeginnings(open: OpenHarness<RegistryHarness>): void {
  it('misses nothing and repeats nothing between a range and a watch from the revision after it', async (t) => {
    const { world, here, there, watch } = await openRegistryScene(t, open);
    const writes = (async () => {
      for (let i = 0; i < 60; i++) await there.write(putOp(`k${i % 7}`, String(i)));
    })();
    const { entries, revision } = await here.range();
    const model = new Map(entries.map(({ key, value }) => [key, utf8Text(value)]));
    const watched = watch(allKeys, revision + 1);
    await world.settle(writes);
    const { revision: last } = await there.write(putOp('end'));
    await watched.until(({ revisions }) => revisions.at(-1) === last);
    for (const change of watched.changes) {
      assert.ok(change.kind === 'put');
      model.set(change.entry.key, utf8Text(change.entry.value));
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

  it('starts at a future revision', async (t) => {
    const { here, watch } = await openRegistryScene(t, open);
    const { revision } = await here.write(putOp('start'));
    const watched = watch(allKeys, revision + 3);
    for (let i = 1; i <= 4; i++) await here.write(putOp(`k${i}`));
    await watched.until(({ seen }) => seen.length === 2);
    assert.deepEqual(watched.seen, ['+k3=', '+k4=']);
  });

  it('is resumed from the revision after the last one seen', async (t) => {
    const { here, watch } = await openRegistryScene(t, open);
    let next = (await here.write(putOp('start'))).revision + 1;
    const seen: string[] = [];
    for (let round = 0; round < 4; round++) {
      const watched = watch(allKeys, next);
      for (let i = 0; i < 5; i++) await here.write(putOp('n', String(round * 5 + i)));
      await watched.until(({ revisions }) => revisions.length >= 3);
      watched.cancel();
      seen.push(...watched.seen);
      next = watched.revisions.at(-1)! + 1;
    }
    const last = watch(allKeys, next);
    await here.write(putOp('end'));
    await last.until(({ seen }) => seen.at(-1) === '+end=');
    assert.deepEqual([...seen, ...last.seen], [...Array.from({ length: 20 }, (_, i) => `+n=${i}`), '+end=']);
  });
}

function describeEnds(open: OpenHarness<RegistryHarness>): void {
  it('delivers nothing after it was cancelled; cancelling twice is harmless', async (t) => {
    const { here, watch } = await openRegistryScene(t, open);
    const { revision } = await here.write(putOp('a'));
    const cancelled = watch(allKeys, revision);
    cancelled.cancel();
    const kept = watch(allKeys, revision);
    const later = watch(allKeys, revision);
    await later.until(({ seen }) => seen.length === 1);
    later.cancel();
    await here.write(putOp('b'));
    await kept.until(({ seen }) => seen.length === 2);
    cancelled.cancel();
    assert.deepEqual([cancelled.seen, later.seen], [[], ['+a=']]);
  });

  it('reports compaction once, and a new watch from there misses nothing', async (t) => {
    const { world, here, watch } = await openRegistryScene(t, open);
    if (world.compact === undefined) {
      t.skip('this implementation cannot be compacted');
      return;
    }
    const { revision } = await here.write(putOp('a', '1'));
    const present = watch(allKeys, revision);
    await here.write(putOp('a', '2'));
    await here.write(deleteOp('a'));
    await here.write(putOp('b', '3'));
    await present.until(({ seen }) => seen.length === 4);
    await world.settle(world.compact());
    const old = watch(allKeys, revision);
    await old.until(({ compactions }) => compactions.length > 0);
    const { entries, revision: now } = await here.range();
    assert.ok(old.compactions[0]! > revision && old.compactions[0]! <= now + 1, String(old.compactions));
    assert.equal(entries.length > 0, true);
    const fresh = watch(allKeys, now + 1);
    await here.write(putOp('c', '4'));
    await fresh.until(({ seen }) => seen.length === 1);
    assert.deepEqual(fresh.seen, ['+c=4']);
    // A watch that did not lag continues.
    await present.until(({ seen }) => seen.at(-1) === '+c=4');
    assert.deepEqual([old.seen, old.compactions.length, present.compactions.length], [[], 1, 0]);
  });
}
