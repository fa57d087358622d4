/** Properties of registration under random faults, on many seeds. The message names a failing seed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NodeId } from '../base/ids.ts';
import { Random } from '../base/random.ts';
import { keyRanges, parseClusterKey } from '../registry/cluster-keys.ts';
import { RegistrationTestCluster, ttlMs } from '../../test/support/registration/registration-cluster.ts';

const names = ['a', 'b', 'c', 'd', 'e'];

/** Watches the registry and fails at the first registration that breaks the property. */
class LateReturnChecker {
  readonly #cluster: RegistrationTestCluster;
  readonly #seed: string;
  /** Registered nodes, with the create revision of their registration. */
  readonly #registered = new Map<NodeId, number>();
  /** Per node: the other registrations at the moment its own ended. */
  readonly #survivors = new Map<NodeId, ReadonlyMap<NodeId, number>>();
  ends = 0;
  lateReturns = 0;

  constructor(cluster: RegistrationTestCluster, seed: string) {
    this.#cluster = cluster;
    this.#seed = seed;
    cluster.registry.watch(
      keyRanges.registrations,
      { revision: 1 },
      {
        changed: (changes) => {
          for (const change of changes) {
            const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
            assert.ok(key?.kind === 'registration');
            if (change.kind === 'delete') this.#onEnd(key.node);
            else if (change.entry.version === 1) this.#onStart(key.node, change.entry.createRevision);
          }
        },
        compacted: () => assert.fail('the history is long enough'),
      },
    );
  }

  #onEnd(node: NodeId): void {
    this.ends += 1;
    this.#registered.delete(node);
    this.#survivors.set(node, new Map(this.#registered));
  }

  #onStart(node: NodeId, revision: number): void {
    const others = this.#survivors.get(node) ?? new Map<NodeId, number>();
    const stillRegistered = [...others].filter(([other, since]) => this.#registered.get(other) === since);
    this.#registered.set(node, revision);
    if (stillRegistered.length === 0) return;
    this.lateReturns += 1;
    const name = this.#cluster.nameOf(node);
    assert.match(this.#cluster.statusOf(name), /^drained /, `seed ${this.#seed}: ${name} returned late`);
  }
}

function injectFault(cluster: RegistrationTestCluster, random: Random): void {
  const name = random.pick(names);
  const node = cluster.node(name);
  const fault = random.below(10);
  if (fault < 3)
    node.connection?.interrupt(random.pick([undefined, 'NO_QUORUM', 'DEADLINE', 'NETWORK_TIMEOUT'] as const));
  else if (fault < 4) node.connection?.interrupt(undefined, { takesEffect: true });
  else if (fault < 7) node.connection?.resume();
  else if (node.host === undefined) cluster.start(name);
  else if (name !== 'a') cluster.crash(name);
}

describe('registration', () => {
  test('drains every late return under random interruptions and restarts (200 seeds)', () => {
    let [ends, lateReturns] = [0, 0];
    for (let i = 0; i < 200; i++) {
      const seed = `disturbed ${i}`;
      const random = new Random(seed);
      const cluster = new RegistrationTestCluster(names, {}, { seed });
      for (const node of cluster.nodes.values()) node.rate = random.between(1 / 1.2, 1.2);
      const checker = new LateReturnChecker(cluster, seed);
      cluster.lead('a');
      for (const name of names) cluster.start(name);
      for (let step = 0; step < 40; step++) {
        cluster.run(random.between(100, 25_000));
        injectFault(cluster, random);
      }
      for (const name of names) {
        cluster.heal(name);
        if (cluster.node(name).host === undefined) cluster.start(name);
      }
      cluster.run(20_000);
      for (const name of names) {
        const status = cluster.statusOf(name);
        assert.match(status, /^(active|drained) /, `seed ${seed}: ${name} is ${status} after all was healed`);
        assert.equal(cluster.node(name).fenced, undefined, `seed ${seed}`);
      }
      ends += checker.ends;
      lateReturns += checker.lateReturns;
    }
    assert.ok(ends > 700 && lateReturns > 200, `the seeds cover too little: ${ends} ends, ${lateReturns} late returns`);
  });

  test('makes all nodes active after a full restart, whatever the order and the times (500 seeds)', () => {
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
        assert.equal(cluster.statusOf(name), 'active full_cluster_restart', `seed ${seed}: ${name}`);
        reasons += 1;
      }
    }
    assert.equal(reasons, 2_500);
  });

  test('keeps the epoch and all registrations over leader changes (100 seeds)', () => {
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
        assert.equal(cluster.statusOf(restarts), 'active fast_restart', `seed ${seed}`);
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
