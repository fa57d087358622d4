/** `remuster call`: its route flags and arguments, and the request to the node. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { parseArguments, callCommand, routeOfFlags } from './call.ts';

const isBad = (error: unknown): boolean => isRemusterError(error, 'BAD_ARGUMENT');

describe('remuster call', () => {
  test('takes a JSON array as the arguments, and any other JSON as the only argument', () => {
    assert.deepEqual(parseArguments(undefined), []);
    assert.deepEqual(parseArguments('[1, "a"]'), [1, 'a']);
    assert.deepEqual(parseArguments('[[1]]'), [[1]]);
    assert.deepEqual(parseArguments('{"a": 1}'), [{ a: 1 }]);
    assert.deepEqual(parseArguments('null'), [null]);
    assert.throws(() => parseArguments('hello'), isBad);
  });

  test('takes exactly one route flag', () => {
    assert.deepEqual(routeOfFlags({ hash: '42' }), { hash: '42' });
    assert.deepEqual(routeOfFlags({ id: 3 }), { id: 3 });
    assert.deepEqual(routeOfFlags({ range: '2:8' }), { range: [2, 8] });
    assert.deepEqual(routeOfFlags({ broadcast: true }), { broadcast: true });
    assert.deepEqual(routeOfFlags({ node: 'w2' }), { node: 'w2' });
    assert.deepEqual(routeOfFlags({ local: true }), { local: true });
    assert.deepEqual(routeOfFlags({ dynamic: true }), { dynamic: true });
    assert.throws(() => routeOfFlags({}), isBad);
    assert.throws(() => routeOfFlags({ id: 3, hash: 'a' }), isBad);
    assert.throws(() => routeOfFlags({ range: '2-8' }), isBad);
  });

  test('sends one request and keeps the error code of the reply', async (t) => {
    const bodies: unknown[] = [];
    const server = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk: Buffer) => (text += chunk.toString()));
      request.on('end', () => {
        bodies.push(JSON.parse(text));
        response.statusCode = 404;
        response.end(JSON.stringify({ error: { code: 'UNKNOWN_POOL', message: 'no pool' } }));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const flags = { addr: `http://127.0.0.1:${address.port}`, id: 1, timeout: '2s', callId: 'once' };
    await assert.rejects(callCommand('visits', 'add', '[5]', flags), (error) => isRemusterError(error, 'UNKNOWN_POOL'));
    const expected = { pool: 'visits', method: 'add', args: [5], route: { id: 1 }, callId: 'once', timeoutMs: 2_000 };
    assert.deepEqual(bodies, [expected]);
    await assert.rejects(callCommand('visits', 'add', '[5]', { ...flags, timeout: 'soon' }), isBad);
  });
});
