/** Following a job from one node to the next: gone, silent or without a leader, none of them ends it. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { serializeError, RemusterError } from '../../base/errors.ts';
import { JobHttpClient } from './job-client.ts';
import type { ClusterTarget } from '../command/target.ts';

/** A node that answers like that; `undefined` is no answer at all. */
async function node(
  t: TestContext,
  answer: (path: string) => object | RemusterError | undefined,
): Promise<ClusterTarget> {
  const server = createServer((request, response) => {
    const told = answer(request.url ?? '');
    if (told === undefined) return;
    const isError = told instanceof RemusterError;
    response.writeHead(isError ? told.row.httpStatus : 200);
    response.end(JSON.stringify(isError ? { error: serializeError(told) } : { schemaVersion: 1, ...told }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { addr: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: undefined };
}

const gone: ClusterTarget = { addr: 'http://127.0.0.1:1', token: undefined };

test('a job is followed through nodes that are gone, silent, or know no leader', { timeout: 60_000 }, async (t) => {
  const answers = [
    { version: 1, status: 'RUNNING' },
    new RemusterError('NO_QUORUM'),
    { version: 1, status: 'RUNNING' },
    { version: 2, status: 'COMPLETED' },
  ];
  const asked: string[] = [];
  const good = await node(t, (path) => {
    asked.push(path);
    return answers.shift() ?? assert.fail('asked on after the end');
  });
  const silent = await node(t, () => undefined);
  const seen: number[] = [];
  for await (const { version } of new JobHttpClient([gone, silent, good]).progress('j1')) seen.push(version);
  assert.deepEqual(seen, [1, 2]);
  assert.ok(asked.every((path) => path.startsWith('/v1/jobs/j1/progress?follow=false&after=')));
});

test('what does not pass is told as it is, and a cluster that cannot be reached is UNREACHABLE', async (t) => {
  const unknown = await node(t, () => new RemusterError('UNKNOWN_JOB'));
  const follow = async (): Promise<void> => {
    for await (const progress of new JobHttpClient([unknown, gone]).progress('j1'))
      assert.fail(JSON.stringify(progress));
  };
  await assert.rejects(follow(), { code: 'UNKNOWN_JOB' });
  await assert.rejects(new JobHttpClient([gone, gone]).get('/v1/jobs'), { code: 'UNREACHABLE' });
});
