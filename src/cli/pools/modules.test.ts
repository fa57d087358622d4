import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { requestRoll } from './modules.ts';

/** A node that refuses to roll version 2 until all workers have it, `loading` first. */
async function rollWith(loading: readonly string[][]): Promise<{ readonly rolls: number }> {
  let rolls = 0;
  const server = createServer((request, response) => {
    const missingOn = loading[Math.max(0, rolls - 1)] ?? [];
    const isRoll = request.method === 'POST';
    if (isRoll) rolls += 1;
    const refused = isRoll && (loading[rolls - 1] ?? []).length > 0;
    const error = { code: 'PRECONDITION', message: 'another text', stateChanged: 'no', retryable: false };
    const body = refused ? { error } : { schemaVersion: 1, versions: [{ version: 2, missingOn }], pools: [] };
    response.writeHead(refused ? 409 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const addr = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await requestRoll({ addr, token: undefined }, 'counter', 2, {
      roll: true,
      timeout: '10s',
      output: 'json',
    } as never);
    return { rolls };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('a roll is requested again while a worker that has just joined still loads the version', async () => {
  assert.deepEqual(await rollWith([['c'], []]), { rolls: 2 });
});
