import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { it } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

it('applyV8Flags sets flags that V8 knows and that take effect', { timeout: 60_000 }, async () => {
  const script = `
    import { cachedDataVersionTag } from 'node:v8';
    import { applyV8Flags } from ${JSON.stringify(new URL('./v8-flags.ts', import.meta.url).href)};
    const before = cachedDataVersionTag();
    applyV8Flags();
    console.log(before === cachedDataVersionTag());`;
  const args = ['--input-type=module', '--eval', script];
  const { stdout, stderr } = await run(process.execPath, args, { timeout: 30_000 });
  // The tag depends on the flags alone: it stays the same if they are frozen.
  assert.equal(stdout.trim(), 'false');
  // V8 complains about an unknown flag.
  assert.equal(stderr, '');
});
