import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, it } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Environment and cache of a thread, in a process of its own with this environment. */
async function threadFacts(environment: Readonly<Record<string, string>>): Promise<unknown> {
  const code = `export const main = (channel) => {
    const facts = { names: Object.keys(process.env), cached: module.getCompileCacheDir() !== undefined };
    channel.send(new TextEncoder().encode(JSON.stringify(facts)));
  };`;
  const program = `data:text/javascript,${encodeURIComponent(`import module from 'node:module'; ${code}`)}`;
  const script = `
    import { openThreads } from ${JSON.stringify(new URL('./threads.ts', import.meta.url).href)};
    const spec = { name: 'test', program: { moduleUrl: ${JSON.stringify(program)} }, data: new Uint8Array(0) };
    const running = openThreads().start(spec, {
      message: (body) => { console.log(new TextDecoder().decode(body)); running.kill(); },
      exited: () => {},
    });`;
  const args = ['--input-type=module', '--eval', script];
  const { stdout } = await run(process.execPath, args, { env: environment, timeout: 30_000 });
  return JSON.parse(stdout);
}

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'remuster-test-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

it('a thread inherits the compile cache of its process and no other variable', { timeout: 60_000 }, async (t) => {
  const cache = folder(t);
  const facts = await threadFacts({ NODE_COMPILE_CACHE: cache, SECRET: 'x' });
  assert.deepEqual(facts, { names: ['NODE_COMPILE_CACHE'], cached: true });
  // One folder for the version of Node with the files of the thread, and no folder inside.
  const [version, ...others] = readdirSync(cache);
  assert.deepEqual(others, []);
  const files = readdirSync(join(cache, version!), { withFileTypes: true });
  assert.ok(files.length > 0 && files.every((file) => file.isFile()));
});

it('a thread inherits no variable when there is no cache', { timeout: 60_000 }, async () => {
  assert.deepEqual(await threadFacts({ SECRET: 'x' }), { names: [], cached: false });
});
