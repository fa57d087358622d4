import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, it } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What a thread says of its environment and its cache, in a process of its own with this environment. */
async function thread(environment: Readonly<Record<string, string>>): Promise<unknown> {
  const said = `export const main = (channel) => {
    const words = { names: Object.keys(process.env), cached: module.getCompileCacheDir() !== undefined };
    channel.send(new TextEncoder().encode(JSON.stringify(words)));
  };`;
  const program = `data:text/javascript,${encodeURIComponent(`import module from 'node:module'; ${said}`)}`;
  const script = `
    import { openThreads } from ${JSON.stringify(new URL('./threads.ts', import.meta.url).href)};
    const spec = { name: 'test', program: { moduleUrl: ${JSON.stringify(program)} }, data: new Uint8Array(0) };
    const running = openThreads().start(spec, {
      message: (body) => { console.log(new TextDecoder().decode(body)); running.kill(); },
      exited: () => {},
    });`;
  const words = ['--input-type=module', '--eval', script];
  const { stdout } = await run(process.execPath, words, { env: environment, timeout: 30_000 });
  return JSON.parse(stdout);
}

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'remuster-test-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

it('gives a thread the cache of its process, and nothing else of its environment', { timeout: 60_000 }, async (t) => {
  const cache = folder(t);
  const found = await thread({ NODE_COMPILE_CACHE: cache, SECRET: 'x' });
  assert.deepEqual(found, { names: ['NODE_COMPILE_CACHE'], cached: true });
  // One folder for the version of Node, with the files of the thread in it, and none inside that.
  const [version, ...others] = readdirSync(cache);
  assert.deepEqual(others, []);
  const files = readdirSync(join(cache, version!), { withFileTypes: true });
  assert.ok(files.length > 0 && files.every((file) => file.isFile()));
});

it('gives a thread nothing at all where there is no cache', { timeout: 60_000 }, async () => {
  assert.deepEqual(await thread({ SECRET: 'x' }), { names: [], cached: false });
});
