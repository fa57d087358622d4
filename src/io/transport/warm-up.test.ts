/** A rehearsal on real sockets: it works, ends, leaves nothing open, and no stranger has a part in it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  realClock,
  counterOf,
  identity,
  testTimeout,
  secret,
  startTransportNode,
  text,
  waitUntil,
} from '../../../test/support/io/transport-nodes.ts';
import { openWarmUpNodes, warmUpStreams } from './warm-up.ts';
import type { TransportOptions } from './transport-options.ts';

const like: TransportOptions = {
  ...{ cluster: 'test', clock: realClock, log: () => {}, self: identity('real'), bind: { host: '127.0.0.1', port: 0 } },
  ...{ secrets: { current: secret, previous: [] }, admit: () => undefined },
};

function socketsOpen(): number {
  return process.getActiveResourcesInfo().filter((name) => /TCP|UDP/.test(name)).length;
}

test('pretended nodes ask each other over connections, and nothing is left of them', testTimeout, async () => {
  const before = socketsOpen();
  await warmUpStreams(like);
  await waitUntil(() => socketsOpen() === before, 'all sockets are closed');
});

test('a place where nothing can be opened is no failure', testTimeout, async () => {
  const nowhere = { ...like, bind: { host: '192.0.2.1', port: 0 } };
  await warmUpStreams(nowhere);
  assert.deepEqual(await openWarmUpNodes(nowhere, 2), []);
});

test('pretended nodes hear each other, and no node of the real cluster', testTimeout, async () => {
  const real = await startTransportNode('b');
  const [one, two] = await openWarmUpNodes(like, 2);
  assert.ok(one !== undefined && two !== undefined);
  const heard: string[] = [];
  two.transport.datagrams.receive((from) => heard.push(from.name));
  real.transport.datagrams.send(two.identity, text('from a real node'));
  await waitUntil(
    () => Object.keys(two.transport.counters()).some((name) => name.startsWith('rejected.')),
    'it is refused',
  );
  one.transport.datagrams.send(two.identity, text('from a pretended node'));
  await waitUntil(() => heard.length > 0, 'the datagram arrives');
  assert.deepEqual(heard, ['pretended-1']);
  assert.equal(counterOf(real, 'messages.received'), 0);
  await Promise.all([one.transport.close(), two.transport.close()]);
});
