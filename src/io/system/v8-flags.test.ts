import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { it } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

it('tells the engine how to share the machine', { timeout: 60_000 }, async () => {
  const script = `
    import { cachedDataVersionTag } from 'node:v8';
    import { applyV8Flags } from ${JSON.stringify(new URL('./v8-flags.ts', import.meta.url).href)};
    const before = cachedDataVersionTag();
    applyV8Flags();
    console.log(before === cachedDataVersionTag());`;
  const words = ['--input-type=module', '--eval', script];
  const { stdout, stderr } = await run(process.execPath, words, { timeout: 30_000 });
  // Flags that are frozen would change nothing, and what they are is all that the tag depends on.
  assert.equal(stdout.trim(), 'false');
  // Of one that it does not know the engine complains.
  assert.equal(stderr, '');
});
