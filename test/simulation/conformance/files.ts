/**
 * Conformance of Files: calls on one path run in order, a replace is atomic, a synced tail survives a crash, no path
 * leaves the root.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Files } from '../../../src/base/ports.ts';
import {
  type OpenHarness,
  type TestWorld,
  outcomeOf,
  expectFailure,
  expectSuccess,
  suiteOptions,
  utf8Text,
  utf8,
  unwrap,
} from './harness.ts';

export type FilesHarness = TestWorld & {
  readonly files: Files;
  /** Crashes the process (with power loss, if the implementation can simulate it), then opens the same root again. */
  crash(): Promise<Files>;
  /** Makes the disk full, or frees space. Undefined if the implementation cannot do it. */
  full?(isFull: boolean): Promise<void>;
};

async function content(world: TestWorld, files: Files, path: string): Promise<string | undefined> {
  return utf8Text(await expectSuccess<Uint8Array | undefined>(world, (done) => files.read(path, done)));
}

function replace(world: TestWorld, files: Files, path: string, value: string): Promise<void> {
  return expectSuccess<void>(world, (done) => files.replace(path, utf8.encode(value), done));
}

function append(world: TestWorld, files: Files, path: string, value: string): Promise<void> {
  return expectSuccess<void>(world, (done) => files.append(path, utf8.encode(value), done));
}

function names(world: TestWorld, files: Files, directory: string): Promise<readonly string[]> {
  return expectSuccess<readonly string[]>(world, (done) => files.list(directory, done));
}

export function describeFiles(name: string, open: OpenHarness<FilesHarness>): void {
  describe(`${name} is Files`, suiteOptions, () => {
    describeContents(open);
    describeListing(open);
    describePaths(open);
    describeOrder(open);
    describeCrash(open);
    describeFull(open);
  });
}

function describeContents(open: OpenHarness<FilesHarness>): void {
  it('reads the last replaced content, and undefined for a missing file', async (t) => {
    const harness = await open(t);
    assert.equal(await content(harness, harness.files, 'a/b/c'), undefined);
    await replace(harness, harness.files, 'a/b/c', 'first');
    await replace(harness, harness.files, 'a/b/c', '2nd');
    await replace(harness, harness.files, 'empty', '');
    assert.equal(await content(harness, harness.files, 'a/b/c'), '2nd');
    assert.equal(await content(harness, harness.files, 'empty'), '');
    assert.equal(await content(harness, harness.files, 'a/b/d'), undefined);
  });

  it('appends to the end, creates a missing file, truncates', async (t) => {
    const harness = await open(t);
    const { files } = harness;
    await append(harness, files, 'log/1', 'one,');
    await append(harness, files, 'log/1', 'two,');
    await expectSuccess<void>(harness, (done) => files.sync('log/1', done));
    await expectSuccess<void>(harness, (done) => files.truncate('log/1', 6, done));
    assert.equal(await content(harness, files, 'log/1'), 'one,tw');
    await append(harness, files, 'log/1', '!');
    assert.equal(await content(harness, files, 'log/1'), 'one,tw!');
  });

  it('appends to the new file after replace and after remove', async (t) => {
    const harness = await open(t);
    const { files } = harness;
    await append(harness, files, 'log', 'old');
    await replace(harness, files, 'log', 'new');
    await append(harness, files, 'log', '+1');
    assert.equal(await content(harness, files, 'log'), 'new+1');
    await expectSuccess<void>(harness, (done) => files.remove('log', done));
    assert.equal(await content(harness, files, 'log'), undefined);
    await expectSuccess<void>(harness, (done) => files.remove('log', done));
    await append(harness, files, 'log', 'again');
    assert.equal(await content(harness, files, 'log'), 'again');
  });

  it('shares no bytes with its caller', async (t) => {
    const harness = await open(t);
    const mine = utf8.encode('before');
    const calls = [
      outcomeOf<void>((done) => harness.files.replace('r', mine, done)),
      outcomeOf<void>((done) => harness.files.append('a', mine, done)),
    ];
    mine.fill(0x78);
    for (const outcome of await harness.settle(Promise.all(calls))) unwrap(outcome);
    assert.equal(await content(harness, harness.files, 'r'), 'before');
    assert.equal(await content(harness, harness.files, 'a'), 'before');
  });
}

function describeListing(open: OpenHarness<FilesHarness>): void {
  it('lists the files directly inside a directory, in order; a missing one is empty; the root is the empty path', async (t) => {
    const harness = await open(t);
    const { files } = harness;
    for (const path of ['d/b', 'd/a', 'd/deep/x', 'top']) await replace(harness, files, path, 'x');
    assert.deepEqual(await names(harness, files, 'd'), ['a', 'b']);
    assert.deepEqual(await names(harness, files, 'd/deep'), ['x']);
    assert.deepEqual(await names(harness, files, 'nowhere'), []);
    assert.deepEqual(await names(harness, files, ''), ['top']);
  });
}

function describePaths(open: OpenHarness<FilesHarness>): void {
  it('refuses every path that is not below the root', async (t) => {
    const harness = await open(t);
    const { files } = harness;
    const bad = [
      '..',
      '../x',
      'a/../../x',
      'a/..',
      '/etc/passwd',
      'a\0b',
      'a//b',
      './a',
      'a/.',
      'a/',
      'a\\b',
      '\ud800',
    ];
    for (const path of bad) {
      await expectFailure<Uint8Array | undefined>(harness, 'BAD_ARGUMENT', (done) => files.read(path, done));
      await expectFailure<readonly string[]>(harness, 'BAD_ARGUMENT', (done) => files.list(path, done));
    }
    for (const path of ['', ...bad]) {
      await expectFailure<void>(harness, 'BAD_ARGUMENT', (done) => files.replace(path, new Uint8Array(1), done));
      await expectFailure<void>(harness, 'BAD_ARGUMENT', (done) => files.append(path, new Uint8Array(1), done));
      await expectFailure<void>(harness, 'BAD_ARGUMENT', (done) => files.sync(path, done));
      await expectFailure<void>(harness, 'BAD_ARGUMENT', (done) => files.truncate(path, 0, done));
      await expectFailure<void>(harness, 'BAD_ARGUMENT', (done) => files.remove(path, done));
    }
    await expectFailure<void>(harness, 'BAD_ARGUMENT', (done) => files.truncate('a', -1, done));
    assert.deepEqual(await names(harness, files, ''), []);
  });
}

function describeOrder(open: OpenHarness<FilesHarness>): void {
  it('performs calls on one path in the order in which they were made', async (t) => {
    const harness = await open(t);
    const { files } = harness;
    const order: string[] = [];
    const calls: Promise<unknown>[] = [];
    const note = (label: string, start: (done: (outcome: { ok: boolean }) => void) => void): void => {
      calls.push(
        new Promise<void>((resolve) => {
          start((outcome) => {
            order.push(outcome.ok ? label : `${label} failed`);
            resolve();
          });
        }),
      );
    };
    const reads: Promise<string | undefined>[] = [];
    const readBack = () =>
      reads.push(
        outcomeOf<Uint8Array | undefined>((done) => files.read('f', done)).then((seen) => utf8Text(unwrap(seen))),
      );
    note('replace', (done) => files.replace('f', utf8.encode('base'), done));
    for (let i = 0; i < 5; i++) note(`append ${i}`, (done) => files.append('f', utf8.encode(`,${i}`), done));
    readBack();
    note('sync', (done) => files.sync('f', done));
    note('truncate', (done) => files.truncate('f', 4, done));
    note('append', (done) => files.append('f', utf8.encode('!'), done));
    readBack();
    note('remove', (done) => files.remove('f', done));
    readBack();
    await harness.settle(Promise.all(calls));
    assert.deepEqual(await harness.settle(Promise.all(reads)), ['base,0,1,2,3,4', 'base!', undefined]);
    const appends = Array.from({ length: 5 }, (_, i) => `append ${i}`);
    assert.deepEqual(order, ['replace', ...appends, 'sync', 'truncate', 'append', 'remove']);
  });

  it('works on many paths at once', async (t) => {
    const harness = await open(t);
    const paths = Array.from({ length: 300 }, (_, i) => `many/${i % 3}/${i}`);
    const calls = [1, 2].flatMap((round) =>
      paths.map((path) =>
        outcomeOf<void>((done) => harness.files.append(path, utf8.encode(`${path}:${round} `), done)),
      ),
    );
    for (const outcome of await harness.settle(Promise.all(calls))) unwrap(outcome);
    for (const path of paths) {
      assert.equal(await content(harness, harness.files, path), `${path}:1 ${path}:2 `);
    }
  });
}

function describeCrash(open: OpenHarness<FilesHarness>): void {
  it('has replaced and synced content after a crash, and at most a prefix of an unsynced tail', async (t) => {
    const harness = await open(t);
    const { files } = harness;
    await replace(harness, files, 'd/whole', 'acknowledged');
    await append(harness, files, 'd/log', 'synced|');
    await expectSuccess<void>(harness, (done) => files.sync('d/log', done));
    await append(harness, files, 'd/log', 'tail');
    const again = await harness.settle(harness.crash());
    assert.equal(await content(harness, again, 'd/whole'), 'acknowledged');
    const log = (await content(harness, again, 'd/log')) ?? '';
    assert.ok(log.startsWith('synced|'), `lost what was synced: ${log}`);
    assert.ok(log.length <= 'synced|tail'.length);
  });

  it('has the old or the new file after a crash during a replace, and no leftovers', async (t) => {
    const harness = await open(t);
    const [old, fresh] = ['old'.repeat(10_000), 'new'.repeat(20_000)];
    await replace(harness, harness.files, 'd/f', old);
    harness.files.replace('d/f', utf8.encode(fresh), () => undefined);
    const again = await harness.settle(harness.crash());
    const found = await content(harness, again, 'd/f');
    assert.ok(found === old || found === fresh, `neither old nor new, but ${found?.length} characters`);
    assert.deepEqual(await names(harness, again, 'd'), ['f']);
    assert.deepEqual(await names(harness, again, ''), []);
  });
}

function describeFull(open: OpenHarness<FilesHarness>): void {
  it('fails with STORE_FULL, keeps the old file, and writes again when there is space', async (t) => {
    const harness = await open(t);
    if (harness.full === undefined) {
      t.skip('this implementation cannot be made full');
      return;
    }
    await replace(harness, harness.files, 'f', 'old');
    await harness.settle(harness.full(true));
    const large = new Uint8Array(3_000_000).fill(0x78);
    await expectFailure<void>(harness, 'STORE_FULL', (done) => harness.files.replace('f', large, done));
    assert.equal(await content(harness, harness.files, 'f'), 'old');
    await harness.settle(harness.full(false));
    await replace(harness, harness.files, 'f', 'new');
    assert.equal(await content(harness, harness.files, 'f'), 'new');
  });
}
