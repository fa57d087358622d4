/** Parsing and validation of compose files. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { isRemusterError } from '../../base/errors.ts';
import { parseComposeFile, readComposeFile } from './compose-file.ts';

function errorOf(...pools: readonly unknown[]): string {
  try {
    parseComposeFile({ compose: pools }, 'f.yaml');
    return '';
  } catch (error) {
    assert.ok(isRemusterError(error), String(error));
    return `${error.code} ${error.message}`;
  }
}

const pool = { name: 'a', module: 'kv', containers: 4 };

describe('a compose file', () => {
  test('is YAML, and gets the defaults of omitted fields', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-compose-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'pools.yaml');
    writeFileSync(file, '# mine\ncompose:\n  - name: a\n    module: kv\n    containers: 4\n    params: { x: [1] }\n');
    assert.deepEqual(await readComposeFile(file), {
      pools: [{ ...pool, copies: 2, durability: 'copies', restart: false, params: { x: [1] } }],
      ignored: [],
    });
    writeFileSync(file, 'compose: [\n');
    await assert.rejects(readComposeFile(file), { code: 'BAD_ARGUMENT' });
    await assert.rejects(readComposeFile(join(folder, 'none.yaml')), { code: 'BAD_ARGUMENT' });
  });

  test('may use older field names', () => {
    const old = { mod_name: 'kv', pool_name: 'a', pool_id: 7, pool_query: 'local', num_containers: 4, restart: true };
    const { pools, ignored } = parseComposeFile({ compose: [old] }, 'f.yaml');
    assert.deepEqual(
      pools.map(({ name, module, containers, restart }) => [name, module, containers, restart]),
      [['a', 'kv', 4, true]],
    );
    assert.deepEqual(ignored, ['pool_id', 'pool_query']);
  });

  test('is refused with the position and the reason', () => {
    assert.match(errorOf(), /BAD_ARGUMENT f.yaml must have a list "compose"/);
    assert.match(errorOf({ ...pool, name: undefined }), /compose\[0\]: undefined cannot be the name of a pool/);
    assert.match(errorOf(pool, { ...pool, name: 'b', containers: undefined }), /compose\[1\]: a pool has 1 to/);
    assert.match(errorOf({ ...pool, copie: 3 }), /unknown field "copie"; did you mean copies\?/);
    assert.match(errorOf({ ...pool, pool_name: 'b' }), /sets its name twice/);
    assert.match(errorOf(pool, pool), /two pools named a/);
    assert.match(errorOf('kv'), /compose\[0\] must be a pool/);
    assert.match(errorOf({ ...pool, durability: 'paper' }), /durability is one of/);
  });
});
