/** The client session over simulated streams, against a real node core. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError, toPromise } from '../base/errors.ts';
import { nodeIdFrom } from '../base/ids.ts';
import type { Clock, Identity, Streams } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { bootNode } from '../node/node-core.ts';
import { inlineMembership } from '../node/membership/inline-membership.ts';
import { nodeOptions } from '../node/options/options.ts';
import { SimulatedWorld } from '../simulation/world/simulated-world.ts';
import { type ClusterSession, openSession } from './session.ts';

const address = { host: '10.0.0.0', port: 1 };

type Client = { readonly streams: Streams; readonly clock: Clock };

/** Host 0 is a node, host 1 a client. */
function nodeAndClient(): { world: SimulatedWorld<Client>; session: ClusterSession; streams: Streams } {
  const world = new SimulatedWorld<Client>({
    seed: 'client',
    names: ['node', 'client'],
    failpoints: false,
    boot: (ports, { name, index, host, random, log }) => {
      const id = nodeIdFrom(new Uint8Array(16).fill(index));
      const roles = index === 0 ? (['worker'] as const) : (['client'] as const);
      const identity: Identity = { id, name, host, port: 1, generation: 1, roles, dc: 'dc1' };
      const { datagrams, streams } = ports.listen(identity, 'test');
      const store = ports.openStore('node');
      const membership = inlineMembership(datagrams, random, nodeOptions());
      if (index === 0)
        bootNode({ clock: ports.clock, streams, store, log, membership }, { ...nodeOptions(), identity });
      return { streams, clock: ports.clock };
    },
  });
  world.startAll();
  world.advance(100);
  const { streams, clock } = world.program('client') as Client;
  const times = { requestTimeoutMs: 500, retryTimeoutMs: 60_000, tryNewServers: 16 };
  const random = new Random('session');
  const session = openSession({ ...times, streams, clock, random, addresses: [address], name: 'client-1' });
  return { world, streams, session };
}

async function within<T>(world: SimulatedWorld<Client>, reply: Promise<T>): Promise<T> {
  world.advance(1_000);
  return await reply;
}

test('a client sees the members and is not one of them', async () => {
  const { world, session } = nodeAndClient();
  const members = await within(world, session.members());
  assert.deepEqual(
    members.map(({ name, state }) => `${name} ${state}`),
    ['node alive'],
  );
});

test('an echo returns the same bytes', async () => {
  const { world, session } = nodeAndClient();
  assert.deepEqual(await within(world, session.echo(Uint8Array.of(1, 2, 3))), Uint8Array.of(1, 2, 3));
});

test('a client may not join as a member', async () => {
  const { world, streams } = nodeAndClient();
  const body = encodeMessage({ kind: 'syncView', viewHash: 0, claims: [], reply: 'differences' });
  const reply = toPromise<Uint8Array>((done) => streams.request(address, body, 500, done));
  await assert.rejects(within(world, reply), (error) => isRemusterError(error, 'FORBIDDEN'));
});

test('a request to a dead node ends with a coded error', async () => {
  const { world, session } = nodeAndClient();
  world.crash('node');
  await assert.rejects(within(world, session.members()), (error) => isRemusterError(error));
});

test('a closed session refuses requests, and a second close has no effect', async () => {
  const { world, session } = nodeAndClient();
  const closed = session.close();
  void session.close();
  await within(world, closed);
  await assert.rejects(session.members(), (error) => isRemusterError(error, 'CANCELLED'));
});
