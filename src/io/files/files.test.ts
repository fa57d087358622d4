import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, it } from 'node:test';
import { toPromise } from '../../base/errors.ts';
import { describeFiles } from '../../../test/simulation/conformance/files.ts';
import { realWorld, utf8Text, utf8 } from '../../../test/simulation/conformance/harness.ts';
import { type OpenFiles, openFiles } from './files.ts';

type Folder = { readonly root: string; readonly open: () => OpenFiles };

/** A directory for one test, removed after everything opened in it is closed. */
function temporaryFolder(t: TestContext, unmount: (root: string) => void = () => undefined): Folder {
  const root = mkdtempSync(join(tmpdir(), 'remuster-files-'));
  const opened: OpenFiles[] = [];
  t.after(async () => {
    for (const files of opened) await toPromise<void>((done) => files.close(done));
    unmount(root);
    rmSync(root, { recursive: true, force: true });
  });
  const open = (): OpenFiles => {
    const files = openFiles(root);
    opened.push(files);
    return files;
  };
  return { root, open };
}

describeFiles('a directory', (t) => {
  const folder = temporaryFolder(t);
  return { ...realWorld, files: folder.open(), crash: async () => folder.open() };
});

/** A real file system of 2 MB, to fill it; only root may mount one. */
function smallDisk(t: TestContext): Folder | undefined {
  let isMounted = false;
  const folder = temporaryFolder(t, (root) => {
    if (isMounted) execFileSync('umount', [root]);
  });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', folder.root], { stdio: 'ignore' });
    isMounted = true;
    return folder;
  } catch {
    return undefined;
  }
}

it('an append to a full disk is undone as a whole, and works again when there is space', async (t) => {
  const folder = smallDisk(t);
  if (folder === undefined) {
    t.skip('this user may not mount a file system');
    return;
  }
  const { root } = folder;
  const files = folder.open();
  const append = (bytes: Uint8Array) => toPromise<void>((done) => files.append('log', bytes, done));
  await append(utf8.encode('before and more'));
  await toPromise<void>((done) => files.truncate('log', 6, done));
  writeFileSync(join(root, 'filler'), new Uint8Array(1_500_000));
  await assert.rejects(append(new Uint8Array(1_000_000).fill(1)), { code: 'STORE_FULL' });
  await assert.rejects(
    toPromise<void>((done) => files.replace('other', new Uint8Array(1_000_000), done)),
    { code: 'STORE_FULL' },
  );
  assert.equal(readFileSync(join(root, 'log'), 'utf8'), 'before');
  assert.deepEqual(readdirSync(join(root, '.replace')), []);
  rmSync(join(root, 'filler'));
  await append(utf8.encode(' after'));
  assert.equal(utf8Text(await toPromise<Uint8Array | undefined>((done) => files.read('log', done))), 'before after');
});

it('a start removes the drafts of a crash, and no operation reaches the draft folder', async (t) => {
  const { root, open } = temporaryFolder(t);
  mkdirSync(join(root, '.replace'));
  writeFileSync(join(root, '.replace', '17'), 'half');
  const files = open();
  assert.deepEqual(readdirSync(join(root, '.replace')), []);
  await assert.rejects(
    toPromise<void>((done) => files.append('.replace/x', utf8.encode('x'), done)),
    { code: 'BAD_ARGUMENT' },
  );
});

it('the number of open files is bounded', { skip: !existsSync('/proc/self/fd') }, async (t) => {
  const files = temporaryFolder(t).open();
  const before = readdirSync('/proc/self/fd').length;
  for (let i = 0; i < 200; i++) await toPromise<void>((done) => files.append(`f${i}`, utf8.encode('x'), done));
  await toPromise<void>((done) => files.append('f0', utf8.encode('y'), done));
  assert.ok(readdirSync('/proc/self/fd').length - before < 80);
  assert.equal(utf8Text(await toPromise<Uint8Array | undefined>((done) => files.read('f0', done))), 'xy');
});

it('operations beyond the queue bound fail with CAPACITY, and the others complete', async (t) => {
  const files = temporaryFolder(t).open();
  const outcomes: Promise<string>[] = [];
  for (let i = 0; i < 10_050; i++) {
    outcomes.push(
      new Promise((resolve) => {
        files.read(`missing/${i % 7}`, (outcome) => resolve(outcome.ok ? 'ok' : outcome.error.code));
      }),
    );
  }
  const ended = await Promise.all(outcomes);
  assert.equal(ended.filter((code) => code === 'ok').length, 10_000);
  assert.equal(ended.filter((code) => code === 'CAPACITY').length, 50);
});

it('an error names the operation and the cause, but no absolute path', async (t) => {
  const { root, open } = temporaryFolder(t);
  const files = open();
  await toPromise<void>((done) => files.replace('file', utf8.encode('x'), done));
  await assert.rejects(
    toPromise<void>((done) => files.append('file/below', utf8.encode('x'), done)),
    (error: Error) => /ENOTDIR/.test(error.message) && !error.message.includes(root),
  );
});
