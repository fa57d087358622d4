/** Fetching a backup in parts: it starts again when its leader has changed, and never retries a permanent refusal. */
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import type { ClusterTarget } from '../command/target.ts';
import { fetchBackup } from './registry-backup.ts';

let server: Server | undefined;

afterEach(() => {
  server?.close();
  server?.closeAllConnections();
  server = undefined;
});

const refusal = { error: { code: 'PRECONDITION', message: 'etcd keeps the registry', stateChanged: 'no' } };

/** Replies in this order, and records the queries. */
async function replying(replies: readonly object[]): Promise<{ target: ClusterTarget; queries: string[] }> {
  const queries: string[] = [];
  const own = createServer((request, response) => {
    const reply = replies[queries.length] ?? assert.fail('one request too many');
    queries.push(new URL(request.url ?? '', 'http://x').search);
    response.writeHead(reply === refusal ? 409 : 200);
    response.end(JSON.stringify(reply));
  });
  server = own;
  await new Promise<void>((resolve) => own.listen(0, '127.0.0.1', () => resolve()));
  return { target: { addr: `http://127.0.0.1:${(own.address() as AddressInfo).port}`, token: 't' }, queries };
}

function part(id: string, text: string, last: boolean): object {
  return { id, revision: 7, size: 2, offset: 0, bytes: Buffer.from(text).toString('base64'), last };
}

test('a refusal of the first part is final: no backup has begun that could have expired', async () => {
  const { target, queries } = await replying([refusal]);
  await assert.rejects(fetchBackup(target), (error) => isRemusterError(error, 'PRECONDITION'));
  assert.deepEqual(queries, ['']);
});

test('a backup that expired between two parts starts again', async () => {
  const replies = [part('1-1', 'a', false), refusal, part('2-1', 'b', false), part('2-1', 'c', true)];
  const { target, queries } = await replying(replies);
  const { bytes, revision } = await fetchBackup(target);
  assert.deepEqual([Buffer.from(bytes).toString(), revision], ['bc', 7]);
  assert.deepEqual(queries, ['', '?id=1-1&offset=1', '', '?id=2-1&offset=1']);
});

test('a backup that expires again and again ends with the refusal', async () => {
  const { target, queries } = await replying(Array.from({ length: 3 }, () => [part('1', 'a', false), refusal]).flat());
  await assert.rejects(fetchBackup(target), (error) => isRemusterError(error, 'PRECONDITION'));
  assert.equal(queries.length, 6);
});
