import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, describe, it } from 'node:test';
import { dataFormat } from '../../base/format-versions.ts';
import { openDataDir } from './data-dir.ts';
import { entropyBytes, entropyText } from '../system/entropy.ts';

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('a data directory', { timeout: 30_000 }, () => {
  it('has mode 0700, also when it existed with wider rights', (t) => {
    const folder = temporaryFolder(t);
    mkdirSync(join(folder, 'open'), { mode: 0o755 });
    for (const path of [join(folder, 'a/b'), join(folder, 'open')]) {
      const dir = openDataDir({ path });
      assert.equal(statSync(path).mode & 0o777, 0o700);
      dir.release();
      assert.ok(existsSync(path));
    }
  });

  it('is locked by one holder at a time, and free after release', (t) => {
    const path = join(temporaryFolder(t), 'data');
    const first = openDataDir({ path });
    assert.throws(() => openDataDir({ path }), { code: 'STORE_FAILED', message: new RegExp(`process ${process.pid}`) });
    first.release();
    first.release();
    openDataDir({ path }).release();
  });

  it('is locked against other processes, and free after its holder was killed with -9', async (t) => {
    const path = join(temporaryFolder(t), 'data');
    const url = new URL('./data-dir.ts', import.meta.url).href;
    const code = `
      const { openDataDir } = await import(${JSON.stringify(url)});
      openDataDir({ path: ${JSON.stringify(path)} });
      for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(() => resolve(gc())));
      console.log('held');
      setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--expose-gc', '--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    assert.throws(() => openDataDir({ path }), { code: 'STORE_FAILED', message: new RegExp(`process ${child.pid}`) });
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    openDataDir({ path }).release();
  });

  it('is refused when it has other content, and left unchanged', (t) => {
    const folder = temporaryFolder(t);
    mkdirSync(join(folder, 'home'), { mode: 0o755 });
    writeFileSync(join(folder, 'home', 'thesis.txt'), 'years of work');
    assert.throws(() => openDataDir({ path: join(folder, 'home'), ephemeral: true }), { code: 'BAD_ARGUMENT' });
    assert.deepEqual(readdirSync(join(folder, 'home')), ['thesis.txt']);
    assert.equal(statSync(join(folder, 'home')).mode & 0o777, 0o755);
    writeFileSync(join(folder, 'file'), '');
    assert.throws(() => openDataDir({ path: join(folder, 'file') }), /cannot be used: E/);
  });

  it('of another format is refused with its number and what to do, and left unchanged', (t) => {
    const folder = temporaryFolder(t);
    const refused = (path: string, text: RegExp): void => {
      assert.throws(() => openDataDir({ path, ephemeral: true }), { code: 'INCOMPATIBLE_VERSION', message: text });
    };
    const older = join(folder, 'older');
    mkdirSync(older);
    writeFileSync(join(older, 'lock'), '');
    const supported = `this version reads format ${dataFormat} only`;
    refused(older, new RegExp(`has format 1, and ${supported}; start it with the version`));
    assert.deepEqual(readdirSync(older), ['lock']);
    const later = join(folder, 'later');
    openDataDir({ path: later }).release();
    openDataDir({ path: later }).release();
    writeFileSync(join(later, 'format'), `${dataFormat + 1}\n`);
    refused(later, new RegExp(`has format ${dataFormat + 1}, and ${supported}`));
  });

  it('is usable after a start that was interrupted before it took the lock', (t) => {
    const path = join(temporaryFolder(t), 'data');
    mkdirSync(path);
    writeFileSync(join(path, 'format'), `${dataFormat}\n`);
    openDataDir({ path }).release();
    const empty = join(temporaryFolder(t), 'empty');
    mkdirSync(empty);
    writeFileSync(join(empty, 'format'), '');
    openDataDir({ path: empty }).release();
    openDataDir({ path: empty }).release();
  });

  it('is removed when it is ephemeral', (t) => {
    const named = openDataDir({ path: join(temporaryFolder(t), 'data'), ephemeral: true });
    const unnamed = openDataDir({ ephemeral: true });
    for (const dir of [named, unnamed]) {
      writeFileSync(join(dir.path, 'something'), '');
      dir.release();
      assert.equal(existsSync(dir.path), false);
    }
  });
});

describe('entropy', () => {
  it('returns the requested number of bytes, different each time, in a buffer of their own', () => {
    const [a, b] = [entropyBytes(16), entropyBytes(16)];
    assert.equal(a.buffer.byteLength, 16);
    assert.notDeepEqual(a, b);
    assert.match(entropyText(32), /^[\w-]{43}$/);
  });
});
