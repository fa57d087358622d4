/** The options file of a node, and how a command finds its cluster. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { loadConfigFile } from './config-file.ts';
import { resolveTarget } from '../command/target.ts';

let folder = '';
const environment = { ...process.env };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'remuster-config-test-'));
  for (const name of ['REMUSTER_ADDR', 'REMUSTER_TOKEN']) delete process.env[name];
  process.env['REMUSTER_CONTEXTS'] = join(folder, 'contexts.yaml');
  process.env['XDG_RUNTIME_DIR'] = folder;
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
  process.env = { ...environment };
});

function write(file: string, text: string): void {
  writeFileSync(join(folder, file), text);
}

function refused(pattern: RegExp): (error: unknown) => boolean {
  return (error) => isRemusterError(error, 'BAD_ARGUMENT') && pattern.test(error.message);
}

describe('an options file', () => {
  test('is optional', async () => {
    assert.equal(await loadConfigFile(undefined, folder), undefined);
  });

  test('is read as YAML, JSON or TypeScript', async () => {
    write('remuster.config.yaml', 'port: 1\njoin:\n  - a:1\n');
    assert.deepEqual(await loadConfigFile(undefined, folder), {
      path: 'remuster.config.yaml',
      values: { port: 1, join: ['a:1'] },
    });
    write('other.json', '{"port":2}');
    assert.deepEqual((await loadConfigFile('other.json', folder))?.values, { port: 2 });
    write('typed.ts', 'const port: number = 3;\nexport default { port };\n');
    assert.deepEqual((await loadConfigFile('typed.ts', folder))?.values, { port: 3 });
  });

  test('is refused when there are two, or when it is missing, malformed or not an object', async () => {
    await assert.rejects(loadConfigFile('missing.yaml', folder), refused(/cannot read missing\.yaml/));
    write('broken.json', '{');
    await assert.rejects(loadConfigFile('broken.json', folder), refused(/cannot read broken\.json/));
    write('list.yaml', '- 1');
    await assert.rejects(loadConfigFile('list.yaml', folder), refused(/must contain one object/));
    write('remuster.config.yaml', '');
    write('remuster.config.json', '{}');
    await assert.rejects(loadConfigFile(undefined, folder), refused(/both in this folder/));
  });
});

describe('the cluster that a command addresses', () => {
  const contexts = 'current: home\ncontexts:\n  home: {addr: "http://h:1", token: t1}\n  away: {addr: "http://a:2"}\n';

  test('comes from --addr or --context, then the environment, then the current context', async () => {
    assert.deepEqual(await resolveTarget({}), { addr: 'http://127.0.0.1:7500', token: undefined });
    write('contexts.yaml', contexts);
    assert.deepEqual(await resolveTarget({}), { addr: 'http://h:1', token: 't1' });
    process.env['REMUSTER_ADDR'] = 'http://e:3';
    process.env['REMUSTER_TOKEN'] = 't3';
    assert.deepEqual(await resolveTarget({}), { addr: 'http://e:3', token: 't3' });
    assert.deepEqual(await resolveTarget({ context: 'away', token: 't2' }), { addr: 'http://a:2', token: 't2' });
    assert.deepEqual(await resolveTarget({ addr: 'f:4', token: 't4' }), { addr: 'http://f:4', token: 't4' });
  });

  test('is never guessed after a wrong name or address', async () => {
    write('contexts.yaml', contexts);
    await assert.rejects(resolveTarget({ context: 'hom' }), refused(/unknown context "hom"; did you mean home\?/));
    await assert.rejects(resolveTarget({ context: 'constructor' }), refused(/unknown context/));
    await assert.rejects(resolveTarget({ addr: 'ftp://x' }), refused(/looks like http/));
    await assert.rejects(resolveTarget({ addr: 'x', context: 'home' }), refused(/give one of them/));
    write('contexts.yaml', 'contexts: {home: {}}');
    await assert.rejects(resolveTarget({ context: 'home' }), refused(/needs an addr/));
  });
});
