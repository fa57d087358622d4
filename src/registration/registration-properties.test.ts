/** What must hold whatever happens, tried on many seeds. A failing seed is named in the message. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NodeId } from '../base/ids.ts';
import { Random } from '../base/random.ts';
import { keyRanges, parseClusterKey } from '../registry/cluster-keys.ts';
import { RegistrationTestCluster, ttlMs } from '../../test/support/registration/registration-cluster.ts';

const names = ['a', 'b', 'c', 'd', 'e'];

/** Watches the registry as it changes and fails at the first wrong step. */
class Witness {
  readonly #cluster: RegistrationTestCluster;
  readonly #seed: string;
  /** Who is registered, since which revision. */
  readonly #registered = new Map<NodeId, number>();
  /** At the end of its registration: who else was registered, since when. */
  readonly #outlivedBy = new Map<NodeId, ReadonlyMap<NodeId, number>>();
  ends = 0;
  lateReturns = 0;

  constructor(cluster: RegistrationTestCluster, seed: string) {
    this.#cluster = cluster;
    this.#seed = seed;
    cluster.registry.watch(keyRanges.registrations, 1, {
      changed: (changes) => {
        for (const change of changes) {
          const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
          assert.ok(key?.kind === 'registration');
          if (change.kind === 'delete') this.#ended(key.node);
          else if (change.entry.version === 1) this.#began(key.node, change.entry.createRevision);
        }
      },
      compacted: () => assert.fail('the history is long enough'),
    });
  }

  #ended(node: NodeId): void {
    this.ends += 1;
    this.#registered.delete(node);
    this.#outlivedBy.set(node, new Map(this.#registered));
  }

  #began(node: NodeId, revision: number): void {
    const others = this.#outlivedBy.get(node) ?? new Map<NodeId, number>();
    const heldOn = [...others].filter(([other, since]) => this.#registered.get(other) === since);
    this.#registered.set(node, revision);
    if (heldOn.length === 0) return;
    this.lateReturns += 1;
    const name = this.#cluster.nameOf(node);
    assert.match(this.#cluster.standing(name), /^drained /, `seed ${this.#seed}: ${name} was outlived`);
  }
}

function disturb(cluster: RegistrationTestCluster, random: Random): void {
  const name = random.pick(names);
  const node = cluster.node(name);
  const act = random.below(10);
  if (act < 3) node.side?.interrupt(random.pick([undefined, 'NO_QUORUM', 'DEADLINE', 'NETWORK_TIMEOUT'] as const));
  else if (act < 4) node.side?.interrupt(undefined, { happens: true });
  else if (act < 7) node.side?.resume();
  else if (node.host === undefined) cluster.start(name);
  else if (name !== 'a') cluster.crash(name);
}

describe('properties', () => {
  test('under random interruptions and restarts no node is active that was given up (200 seeds)', () => {
    let [ends, lateReturns] = [0, 0];
    for (let i = 0; i < 200; i++) {
      const seed = `disturbed ${i}`;
      const random = new Random(seed);
      const cluster = new RegistrationTestCluster(names, {}, { seed });
      for (const node of cluster.nodes.values()) node.rate = random.between(1 / 1.2, 1.2);
      const witness = new Witness(cluster, seed);
      cluster.lead('a');
      for (const name of names) cluster.start(name);
      for (let step = 0; step < 40; step++) {
        cluster.run(random.between(100, 25_000));
        disturb(cluster, random);
      }
      for (const name of names) {
        cluster.heal(name);
        if (cluster.node(name).host === undefined) cluster.start(name);
      }
      cluster.run(20_000);
      for (const name of names) {
        const standing = cluster.standing(name);
        assert.match(standing, /^(active|drained) /, `seed ${seed}: ${name} is ${standing} after all was healed`);
        assert.equal(cluster.node(name).fenced, undefined, `seed ${seed}`);
      }
      ends += witness.ends;
      lateReturns += witness.lateReturns;
    }
    assert.ok(ends > 700 && lateReturns > 200, `the seeds try something: ${ends} ends, ${lateReturns} late returns`);
  });

  test('after a full restart all are active, whatever the order and the times (500 seeds)', () => {
    let reasons = 0;
    for (let i = 0; i < 500; i++) {
      const seed = `restart ${i}`;
      const random = new Random(seed);
      const cluster = new RegistrationTestCluster(names, {}, { seed });
      cluster.lead(random.pick(names));
      for (const name of names) cluster.start(name);
      cluster.run(random.between(5_000, 100_000));
      for (const name of random.shuffled(names)) {
        cluster.crash(name);
        cluster.run(random.pick([0, 100, 10_000, 40_000]));
      }
      cluster.run(random.pick([0, 5_000, 30_000, 33_000, 300_000]));
      cluster.lead(random.pick(names));
      for (const name of random.shuffled(names)) {
        cluster.run(random.between(0, ttlMs / 8));
        cluster.start(name);
      }
      cluster.run(30_000);
      for (const name of names) {
        assert.equal(cluster.standing(name), 'active full_cluster_restart', `seed ${seed}: ${name}`);
        reasons += 1;
      }
    }
    assert.equal(reasons, 2_500);
  });

  test('a leader that changes while all live on changes nothing (100 seeds)', () => {
    for (let i = 0; i < 100; i++) {
      const seed = `leaders ${i}`;
      const random = new Random(seed);
      const cluster = new RegistrationTestCluster(names, {}, { seed });
      cluster.lead('a');
      for (const name of names) cluster.start(name);
      cluster.run(5_000);
      cluster.log.length = 0;
      for (let change = 0; change < 5; change++) {
        cluster.lead(random.pick(names));
        cluster.run(random.between(10, 60_000));
        const restarts = random.pick(names);
        cluster.crash(restarts);
        cluster.run(random.between(10, 15_000));
        cluster.start(restarts);
        cluster.run(random.between(3_000, 10_000));
        assert.equal(cluster.standing(restarts), 'active fast_restart', `seed ${seed}`);
      }
      assert.equal(cluster.epoch(), 1);
      assert.deepEqual(
        cluster.log.filter((line) => line.includes('lost')),
        [],
        `seed ${seed}`,
      );
    }
  });
});
