/** Places in the registry, its client and the consensus group that commits its writes. */
import assert from 'node:assert/strict';
import { type Outcome, failure } from '../../../src/base/errors.ts';
import { Random } from '../../../src/base/random.ts';
import { type RegistryTransaction, onlyKey } from '../../../src/base/registry.ts';
import { RegistryClient } from '../../../src/registry/client/registry-client.ts';
import { RequestDedup } from '../../../src/registry/replica/request-dedup.ts';
import { FakeConsensusGroup, nodeIdOf } from '../../fakes/fake-consensus-group.ts';
import { threeVoters } from '../consensus/consensus-calls.ts';
import type { Ending, Place } from './place.ts';

const value = new Uint8Array([1]);

function registry(dropsMessage: (requests: number) => boolean) {
  const cluster = new FakeConsensusGroup(3);
  cluster.lead(cluster.managers[0]);
  const self = { id: nodeIdOf(100), generation: 1 };
  const parts = { clock: cluster.clock, random: new Random('client'), self, managers: () => cluster.peers };
  const client = new RegistryClient({ ...parts, send: cluster.sendAs(self) });
  let requests = 0;
  cluster.dropsMessage = () => dropsMessage(++requests);
  const put: RegistryTransaction = { compare: [], then: [{ kind: 'put', key: 'k', value }], otherwise: [] };
  const end = (timeoutMs: number): Ending => {
    let outcome: Outcome<unknown> | undefined;
    client.transact(put, { timeoutMs }, (ended) => (outcome = ended));
    cluster.run(timeoutMs + 1_000);
    const written = cluster.managers.some(({ replica }) => replica.keyspace.range(onlyKey('k'), 1).entries.length > 0);
    return { outcome, hasEffect: written };
  };
  return { cluster, end };
}

const numbered = { client: nodeIdOf(7), generation: 2 };

/** Two writes have run; the result of the first was dropped. */
function dedupOfWrites(limits: { readonly resultBytesMax?: number } = {}): RequestDedup {
  const dedup = new RequestDedup(limits);
  for (const counter of [1, 2]) {
    assert.equal(dedup.resultOf({ ...numbered, counter, lowestPending: 1 }), undefined);
    dedup.record({ ...numbered, counter, lowestPending: 1 }, counter, { kind: 'registryRevokeReply' });
  }
  return dedup;
}

function refusal(dedup: RequestDedup, request: Parameters<RequestDedup['resultOf']>[0]): Ending {
  const reply = dedup.resultOf(request);
  assert.equal(reply?.kind, 'registryError');
  return { outcome: failure('INTERNAL', reply.code, reply.stateChanged), hasEffect: true };
}

export const registryPlaces: readonly Place[] = [
  {
    place: 'registry: the write is committed, and its replies are lost',
    stateChanged: 'maybe',
    run: () => registry((requests) => requests % 2 === 0).end(2_000),
  },
  {
    place: 'registry: the write is committed, its reply is lost, and then there is no leader',
    stateChanged: 'maybe',
    run: () => {
      const { cluster, end } = registry((requests) => {
        if (requests === 2) cluster.lead(undefined);
        return requests === 2;
      });
      return end(4_000);
    },
  },
  {
    place: 'registry: there is no leader',
    stateChanged: 'no',
    run: () => {
      const { cluster, end } = registry(() => false);
      cluster.lead(undefined);
      return end(1_000);
    },
  },
  {
    place: 'registry dedup trimmed: executed, and its reply is dropped',
    stateChanged: 'maybe',
    run: () => refusal(dedupOfWrites({ resultBytesMax: 64 }), { ...numbered, counter: 1, lowestPending: 1 }),
  },
  {
    place: 'registry dedup trimmed: executed, and given up by its client',
    stateChanged: 'maybe',
    run: () => {
      const dedup = dedupOfWrites();
      dedup.resultOf({ ...numbered, counter: 3, lowestPending: 3 });
      return refusal(dedup, { ...numbered, counter: 1, lowestPending: 1 });
    },
  },
  {
    place: 'registry restart: executed for an earlier generation of the client',
    stateChanged: 'maybe',
    run: () => {
      const dedup = dedupOfWrites();
      dedup.resultOf({ ...numbered, generation: 3, counter: 1, lowestPending: 1 });
      return refusal(dedup, { ...numbered, counter: 1, lowestPending: 1 });
    },
  },
  {
    place: 'consensus: the leader has appended and is replaced by one that has the entry',
    stateChanged: 'maybe',
    run: () => {
      const { world, leader, others } = threeVoters();
      let outcome: Outcome<unknown> | undefined;
      // Followers append the entry, and the leader never gets their acks.
      world.travel = ({ kind }) => (kind === 'appendEntriesReply' ? [] : [5]);
      world.voter(leader).host.propose(new TextEncoder().encode('x'), 60_000, (ended) => (outcome = ended));
      world.until('the proposal ends', () => outcome !== undefined);
      world.travel = () => [5];
      world.run(10_000);
      return { outcome, hasEffect: others.some((key) => world.voter(key).stateMachine.items.includes('x')) };
    },
  },
];
