/** Following a job with failover: a node that has ended, does not reply or has no leader does not end it. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { serializeError, RemusterError } from '../../base/errors.ts';
import { JobHttpClient } from './job-client.ts';
import type { ClusterTarget } from '../command/target.ts';

/** A fake node that replies to each path with what `replyTo` returns; it never replies to `undefined`. */
async function fakeNode(
  t: TestContext,
  replyTo: (path: string) => object | RemusterError | undefined,
): Promise<ClusterTarget> {
  const server = createServer((request, response) => {
    const reply = replyTo(request.url ?? '');
    if (reply === undefined) return;
    const isError = reply instanceof RemusterError;
    response.writeHead(isError ? reply.row.httpStatus : 200);
    response.end(JSON.stringify(isError ? { error: serializeError(reply) } : { schemaVersion: 1, ...reply }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { addr: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: undefined };
}

const endedNode: ClusterTarget = { addr: 'http://127.0.0.1:1', token: undefined };

test(
  'progress follows a job across nodes that have ended, do not reply, or have no leader',
  { timeout: 60_000 },
  async (t) => {
    const replies = [
      { version: 1, status: 'RUNNING' },
      new RemusterError('NO_QUORUM'),
      { version: 1, status: 'RUNNING' },
      { version: 2, status: 'COMPLETED' },
    ];
    const requests: string[] = [];
    const healthyNode = await fakeNode(t, (path) => {
      requests.push(path);
      return replies.shift() ?? assert.fail('a request after the terminal status');
    });
    const unresponsiveNode = await fakeNode(t, () => undefined);
    const seen: number[] = [];
    for await (const { version } of new JobHttpClient([endedNode, unresponsiveNode, healthyNode]).progress('j1'))
      seen.push(version);
    assert.deepEqual(seen, [1, 2]);
    assert.ok(requests.every((path) => path.startsWith('/v1/jobs/j1/progress?follow=false&after=')));
  },
);

test('a permanent error ends progress with its code, and an unreachable cluster is UNREACHABLE', async (t) => {
  const unknown = await fakeNode(t, () => new RemusterError('UNKNOWN_JOB'));
  const follow = async (): Promise<void> => {
    for await (const progress of new JobHttpClient([unknown, endedNode]).progress('j1'))
      assert.fail(JSON.stringify(progress));
  };
  await assert.rejects(follow(), { code: 'UNKNOWN_JOB' });
  await assert.rejects(new JobHttpClient([endedNode, endedNode]).get('/v1/jobs'), { code: 'UNREACHABLE' });
});
