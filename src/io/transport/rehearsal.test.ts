/** A rehearsal on real sockets: it works, ends, leaves nothing open, and no stranger has a part in it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { clock, count, identity, limit, secret, startNode, text, until } from './fixtures.test.ts';
import { openPretended, rehearseStreams } from './rehearsal.ts';
import type { TransportOptions } from './transport-options.ts';

const like: TransportOptions = {
  ...{ cluster: 'test', clock, log: () => {}, self: identity('real'), bind: { host: '127.0.0.1', port: 0 } },
  ...{ secrets: { current: secret, previous: [] }, admit: () => undefined },
};

function socketsOpen(): number {
  return process.getActiveResourcesInfo().filter((name) => /TCP|UDP/.test(name)).length;
}

test('pretended nodes ask each other over connections, and nothing is left of them', limit, async () => {
  const before = socketsOpen();
  await rehearseStreams(like);
  await until(() => socketsOpen() === before, 'all sockets are closed');
});

test('a place where nothing can be opened is no failure', limit, async () => {
  const nowhere = { ...like, bind: { host: '192.0.2.1', port: 0 } };
  await rehearseStreams(nowhere);
  assert.deepEqual(await openPretended(nowhere, 2), []);
});

test('pretended nodes hear each other, and no node of the real cluster', limit, async () => {
  const real = await startNode('b');
  const [one, two] = await openPretended(like, 2);
  assert.ok(one !== undefined && two !== undefined);
  const heard: string[] = [];
  two.transport.datagrams.receive((from) => heard.push(from.name));
  real.transport.datagrams.send(two.identity, text('from a real node'));
  await until(
    () => Object.keys(two.transport.counters()).some((name) => name.startsWith('rejected.')),
    'it is refused',
  );
  one.transport.datagrams.send(two.identity, text('from a pretended node'));
  await until(() => heard.length > 0, 'the datagram arrives');
  assert.deepEqual(heard, ['pretended-1']);
  assert.equal(count(real, 'messages.received'), 0);
  await Promise.all([one.transport.close(), two.transport.close()]);
});
