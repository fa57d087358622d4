/** Managers with the real consensus on simulated networks and disks, and nodes that write to them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type Outcome, toPromise } from '../base/errors.ts';
import { type NodeId, nodeIdFrom } from '../base/ids.ts';
import type { Clock, Identity, Peer, StreamService } from '../base/ports.ts';
import {
  type LeaseId,
  type Registry,
  type RegistryTransaction,
  type TransactionResult,
  withPrefix,
} from '../base/registry.ts';
import { ConsensusHost } from '../consensus/consensus-host.ts';
import { defaultConsensusOptions } from '../consensus/state/options.ts';
import type { GroupMember } from '../consensus/state/state-machine.ts';
import { decodeMessage } from '../messages/catalogue.ts';
import type { ConsensusMessage } from '../messages/consensus.ts';
import type { RegistryMessage } from '../messages/registry.ts';
import { type RegistryHarness, describeRegistry } from '../../test/simulation/conformance/registry.ts';
import type { SimulatedPorts } from '../simulation/world/simulated-ports.ts';
import { type NodeContext, SimulatedWorld } from '../simulation/world/simulated-world.ts';
import type { KeyspaceLimits } from './keyspace/keyspace-types.ts';
import { RegistryClient, sendToManagers } from './client/registry-client.ts';
import { RegistryReplica } from './replica/registry-replica.ts';
import { RegistryServer } from './server/registry-server.ts';
import type { RegistryWriteResult } from './registry-messages.ts';

const managerCount = 3;
const port = 7000;

type RegistryNode = {
  readonly clock: Clock;
  readonly client: RegistryClient;
  readonly group: ConsensusHost<RegistryWriteResult> | undefined;
  readonly replica: RegistryReplica | undefined;
};

function idAt(index: number): NodeId {
  return nodeIdFrom(new Uint8Array(16).fill(index + 1));
}

/** The first three nodes are managers, the others are clients. */
function startWorld(
  seed: string,
  names: readonly string[],
  keyspace: Partial<KeyspaceLimits> = {},
): SimulatedWorld<RegistryNode> {
  const world: SimulatedWorld<RegistryNode> = new SimulatedWorld<RegistryNode>({
    seed,
    names,
    failpoints: false,
    boot: (ports, context) => boot(ports, context, peersOf(world), keyspace),
  });
  world.watch((event) => {
    if (event.kind === 'threw') throw event.error;
  });
  world.startAll();
  return world;
}

function peersOf(world: SimulatedWorld<RegistryNode>): readonly Peer[] {
  return world.names.slice(0, managerCount).map((name, at) => ({ id: idAt(at), host: world.host(name).address, port }));
}

function boot(
  ports: SimulatedPorts,
  context: NodeContext,
  peers: readonly Peer[],
  limits: Partial<KeyspaceLimits>,
): RegistryNode {
  const { name, host, index, boots, random, log } = context;
  const { clock } = ports;
  const self: Identity = { id: idAt(index), name, host, port, generation: boots, roles: ['manager'], dc: 'local' };
  const { streams } = ports.listen(self, 'registry');
  const isManager = index < managerCount;
  const replica = isManager ? new RegistryReplica({ keyspace: limits }) : undefined;
  const group =
    replica &&
    new ConsensusHost<RegistryWriteResult>(
      { clock, streams, store: ports.openStore('group'), random, log },
      { group: 'registry', self, options: { ...defaultConsensusOptions, snapshotEntriesMax: 100, tailEntriesMax: 20 } },
      replica,
      {
        event: () => {},
        onHalt: (error) => {
          throw error;
        },
      },
    );
  const server = replica && group && new RegistryServer({ clock, group, replica });
  streams.serve(serviceOf(group, server));
  if (group !== undefined) startGroup(group, peers);
  const send = sendToManagers({ clock, streams, self, server: () => server });
  const managers = (): readonly Peer[] => peers;
  return {
    clock,
    client: new RegistryClient({ clock, random: random.fork('client'), self, managers, send }),
    group,
    replica,
  };
}

function startGroup(group: ConsensusHost<RegistryWriteResult>, peers: readonly Peer[]): void {
  const members = peers.map((peer): GroupMember => {
    return { id: peer.id, host: peer.host, port: peer.port, name: 'manager', standing: 'voter' };
  });
  group.start((outcome) => {
    assert.ok(outcome.ok);
    if (outcome.value.fresh) group.bootstrap(members, () => {});
  });
}

function serviceOf(
  group: ConsensusHost<RegistryWriteResult> | undefined,
  server: RegistryServer | undefined,
): StreamService {
  return {
    request: (from, body, remainingMs, reply) =>
      server?.handle(from, decodeMessage(body) as RegistryMessage, body, remainingMs, reply),
    notify: (from, body) => group?.onMessage(from, decodeMessage(body) as ConsensusMessage),
    open: () => assert.fail('no stream is opened'),
  };
}

function leaderOf(world: SimulatedWorld<RegistryNode>): string | undefined {
  return world.up().find((name) => world.program(name)?.group?.leadership.isLeading());
}

function put(key: string, lease?: LeaseId): RegistryTransaction {
  return {
    compare: [],
    then: [{ kind: 'put', key, value: new Uint8Array(3), ...(lease && { lease }) }],
    otherwise: [],
  };
}

function codeOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : outcome.error.code;
}

describe('a registry on consensus', () => {
  test('loses no acknowledged write and repeats none when leaders are killed, and watchers see each change once', () => {
    for (let seed = 1; seed <= 5; seed++) {
      const world = startWorld(`kill ${seed}`, ['m1', 'm2', 'm3', 'w1', 'w2']);
      const { timeline, random } = world;
      timeline.runUntil(3_000);
      const results = new Map<string, string>();
      const seen: number[] = [];
      world.program('w2')?.client.watch(
        withPrefix('op/'),
        { revision: 1 },
        {
          changed: (_changes, revision) => seen.push(revision),
          compacted: () => assert.fail('history is long enough'),
        },
      );
      for (let i = 0; i < 400; i++)
        timeline.after(random.between(0, 12_000), () =>
          world
            .program('w1')
            ?.client.transact(put(`op/${i}`), {}, (outcome) => results.set(`op/${i}`, codeOf(outcome))),
        );
      for (const atMs of [1_000, 5_000, 9_000])
        timeline.after(atMs, () => {
          const leader = leaderOf(world);
          if (leader === undefined) return;
          world.crash(leader, random.pick(['kept', 'lost']));
          timeline.after(2_500, () => world.start(leader));
        });
      timeline.runUntil(60_000);
      const leader = leaderOf(world);
      assert.ok(leader !== undefined && results.size === 400);
      for (const name of ['m1', 'm2', 'm3']) {
        const { keyspace } = world.program(name)?.replica ?? assert.fail();
        const versions = new Map(
          keyspace.range(withPrefix(''), 1_000).entries.map(({ key, version }) => [key, version]),
        );
        for (const [key, result] of results) {
          const times = versions.get(key) ?? 0;
          assert.ok(times <= 1 && (result !== 'ok' || times === 1), `seed ${seed} ${name} ${key}: ${result} ${times}`);
        }
      }
      const acknowledged = [...results.values()].filter((result) => result === 'ok').length;
      assert.ok(acknowledged > 380, `seed ${seed}: only ${acknowledged} of 400 were acknowledged`);
      const { revision } = world.program(leader)?.replica?.keyspace ?? assert.fail();
      assert.deepEqual(
        seen,
        Array.from({ length: revision }, (_, at) => at + 1),
        `seed ${seed}`,
      );
    }
  });
});

describe('the registry client of a manager', () => {
  test('uses the server of its node, which redirects to the leader', () => {
    const world = startWorld('own', ['m1', 'm2', 'm3']);
    world.timeline.runUntil(3_000);
    const results: string[] = [];
    for (const name of world.names) {
      const { client } = world.program(name) ?? assert.fail();
      client.transact(put(name), {}, (outcome) => results.push(codeOf(outcome)));
      client.range(withPrefix('x'), { stale: true }, (outcome) => results.push(codeOf(outcome)));
      client.grant(2_000, {}, (outcome) => results.push(codeOf(outcome)));
    }
    assert.deepEqual(results, [], 'no request ends before it has returned');
    world.timeline.runUntil(4_000);
    assert.deepEqual(
      results,
      Array.from({ length: 9 }, () => 'ok'),
    );
    const { replica } = world.program(leaderOf(world) ?? '') ?? assert.fail();
    assert.deepEqual([replica?.keyspace.keyCount, replica?.keyspace.leaseCount], [3, 3]);
    world.timeline.runUntil(7_000);
    assert.equal(replica?.keyspace.leaseCount, 0);
  });

  test('continues its watch after a partition, and misses no change', () => {
    const world = startWorld('cut', ['m1', 'm2', 'm3', 'w1']);
    const { timeline } = world;
    timeline.runUntil(3_000);
    const follower = ['m1', 'm2', 'm3'].find((name) => name !== leaderOf(world)) ?? assert.fail();
    const seen: number[] = [];
    world.program(follower)?.client.watch(
      withPrefix(''),
      { revision: 1 },
      {
        changed: (_changes, revision) => seen.push(revision),
        compacted: () => assert.fail('history is long enough'),
      },
    );
    const write = (): void => world.program('w1')?.client.transact(put('a'), {}, () => {});
    write();
    timeline.runUntil(4_000);
    const others = world.names.filter((name) => name !== follower);
    world.partition([[follower], others]);
    timeline.runUntil(5_000);
    write();
    timeline.runUntil(15_000);
    assert.deepEqual(seen, [1]);
    world.heal();
    write();
    timeline.runUntil(25_000);
    assert.deepEqual(seen, [1, 2, 3]);
  });
});

/** Steps the world whenever no promise can settle without it. */
function settling(world: SimulatedWorld<RegistryNode>): RegistryHarness['settle'] {
  return async (promise) => {
    const state = { settled: false };
    const end = (): void => {
      state.settled = true;
    };
    promise.then(end, end);
    const untilMs = world.timeline.nowMs + 120_000;
    while (world.timeline.nowMs < untilMs) {
      world.timeline.step();
      await new Promise(setImmediate);
      if (state.settled) return promise;
    }
    throw new Error('the promise has not settled within two simulated minutes');
  };
}

const historyChangesMax = 200;

async function fill(registry: Registry): Promise<void> {
  for (let i = 0; i <= historyChangesMax; i++)
    await toPromise<TransactionResult>((done) => registry.transact(put('filler'), {}, done));
}

describeRegistry('a registry on consensus', () => {
  const world = startWorld('conformance', ['m1', 'm2', 'm3', 'w1', 'w2'], { historyChangesMax });
  world.timeline.runUntil(5_000);
  const here = world.program('w1') ?? assert.fail();
  const { client: other } = world.program('w2') ?? assert.fail();
  const managers = ['m1', 'm2', 'm3'];
  return {
    settle: settling(world),
    clock: here.clock,
    registry: here.client,
    other,
    compact: () => fill(here.client),
    stopReplying: async (isStopped) => {
      if (isStopped) world.partition([managers, ['w1'], ['w2']]);
      else world.heal();
    },
  };
});
