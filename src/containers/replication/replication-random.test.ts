/**
 * Random runs of three nodes: crashes, partitions, a network that loses and duplicates, full disks, a registry that
 * does not reply, a leader that reassigns containers while their owners still live. After every acknowledgement, each
 * replica in the ISR has every acknowledged write. At the end, when all faults are healed, every assigned replica is in
 * the ISR.
 *
 * `COPIES_SEEDS=100-400 node --test ...` runs other seeds.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Random } from '../../base/random.ts';
import type { StateEntry } from '../contract.ts';
import {
  ReplicationTestCluster,
  type TestNode,
  textOf,
  writesOf,
} from '../../../test/support/containers/replication-cluster.ts';

const names = ['a', 'b', 'c'] as const;
const containers = [0, 1];
const [firstSeed = 1, lastSeed = 60] = (process.env['COPIES_SEEDS'] ?? '').split('-').filter(Boolean).map(Number);

/** What must be true of a container after what its owners have acknowledged and served. */
class Expected {
  readonly present = new Map<string, string>();
  readonly absent = new Set<string>();
  /** Deleted by a commit whose outcome is unknown. */
  readonly uncertain = new Set<string>();
  hot = 0;
  acknowledged = 0;

  check(valueOf: (key: string) => string | undefined, where: string): void {
    for (const [key, value] of this.present) {
      if (this.uncertain.has(key) || valueOf(key) === value) continue;
      assert.fail(`${where} lacks ${key}, which was acknowledged`);
    }
    for (const key of this.absent) if (valueOf(key) !== undefined) assert.fail(`${where} has ${key} back`);
    if (Number(valueOf('hot') ?? 0) < this.hot) assert.fail(`${where} has an old value`);
  }

  deleted(key: string): void {
    this.absent.add(key);
    for (const oldest of this.absent) if (this.absent.size > 50) this.absent.delete(oldest);
  }

  /** A later owner must not find less than this. */
  served(entries: readonly StateEntry[]): void {
    const state = new Map(entries.map(({ key, value }) => [key, textOf(value)]));
    this.check((key) => state.get(key), 'what was opened');
    for (const [key, value] of state) if (key !== 'hot') this.present.set(key, value);
    for (const key of this.uncertain) if (!state.has(key)) this.deleted(key);
    for (const key of this.absent) this.present.delete(key);
    this.uncertain.clear();
    this.hot = Math.max(this.hot, Number(state.get('hot') ?? 0));
  }
}

class RandomRun {
  readonly cluster: ReplicationTestCluster;
  readonly random: Random;
  readonly expected = new Map(containers.map((container) => [container, new Expected()]));
  readonly #unplaced = new Set<number>();
  #counter = 0;
  #isHealed = false;

  constructor(seed: number) {
    this.cluster = new ReplicationTestCluster(`lives/${seed}`, {
      tailBytesMax: seed % 3 === 0 ? 200 : 4_000,
      copyAckTimeoutMs: 200,
    });
    this.cluster.reportsDeadNodes = seed % 2 === 0;
    this.random = this.cluster.random.fork('lives');
    this.cluster.hosting = {
      opened: (_node, { container }, entries) => {
        this.#expected(container).served(entries);
        this.checkAll(container);
      },
      notOpened: (_node, { container }) => this.#unplaced.add(container),
      lost: (_node, { container }) => this.#unplaced.add(container),
    };
    for (const name of names) this.cluster.start(name);
    for (const container of containers) this.cluster.create(container, this.random.shuffled([...names]).slice(0, 2));
  }

  #expected(container: number): Expected {
    return this.expected.get(container) as Expected;
  }

  checkAll(container: number): void {
    const expected = this.#expected(container);
    const record = this.cluster.record(container);
    if (record === undefined || (record.opening === 'init' && record.phase === 'opening')) return;
    for (const { node } of record.inSync) {
      const name = this.cluster.byId(node)?.name ?? '';
      expected.check(this.cluster.value(name, container), `${name} for ${container} at ${this.cluster.timeline.nowMs}`);
    }
  }

  step(): void {
    const { random, cluster } = this;
    for (const node of cluster.nodes.values()) if (node.isUp && random.chance(0.5)) this.#work(node);
    if (!this.#isHealed && random.chance(0.06)) this.#injectFault();
    if (random.chance(0.1)) for (const container of containers) this.#place(container);
    cluster.run(random.fraction() * 20);
    for (const container of containers) this.checkAll(container);
  }

  heal(): void {
    const { cluster } = this;
    this.#isHealed = true;
    cluster.cut.clear();
    Object.assign(cluster.wire, { lossRatio: 0, duplicateRatio: 0, delayMsMax: 1 });
    for (const name of names) {
      const node = cluster.node(name);
      node.disk.heal();
      node.registry.resume();
      if (!node.isUp) cluster.start(name);
    }
    for (let i = 0; i < 300; i++) this.step();
    for (const { id, host } of cluster.nodes.values()) {
      host.reconcile((_pool, container) => (cluster.record(container)?.copies.includes(id) ? 'keep' : 'drop'));
    }
    cluster.run(20_000);
  }

  #work(node: TestNode): void {
    const { random } = this;
    for (const [container, { log }] of node.opened) {
      const expected = this.#expected(container);
      for (let left = random.below(4); left > 0; left--) {
        const n = ++this.#counter;
        const key = `k${random.below(12)}.${n}`;
        const deletedKey = random.chance(0.9) ? random.pick([...expected.present.keys(), '']) : '';
        const pairs: Record<string, string | null> = { [key]: 'v'.repeat(random.below(60)), hot: String(n) };
        if (deletedKey !== '') {
          pairs[deletedKey] = null;
          expected.uncertain.add(deletedKey);
        }
        log.commit(writesOf(pairs), (outcome) => {
          if (outcome.ok) this.#acknowledged(container, key, pairs, deletedKey, n);
        });
      }
    }
  }

  #acknowledged(
    container: number,
    key: string,
    pairs: Readonly<Record<string, string | null>>,
    deletedKey: string,
    n: number,
  ): void {
    const expected = this.#expected(container);
    expected.acknowledged += 1;
    expected.present.set(key, pairs[key] ?? '');
    if (deletedKey !== '') {
      expected.present.delete(deletedKey);
      expected.uncertain.delete(deletedKey);
      expected.deleted(deletedKey);
    }
    expected.hot = Math.max(expected.hot, n);
    this.checkAll(container);
  }

  #injectFault(): void {
    const { random, cluster } = this;
    const node = cluster.node(random.pick(names));
    const [x, y] = random
      .shuffled([...names])
      .slice(0, 2)
      .toSorted();
    const faults: (() => void)[] = [
      () => cluster.kill(node.name),
      () => cluster.kill(node.name),
      () => (node.isUp ? undefined : cluster.start(node.name)),
      () => (node.isUp ? undefined : cluster.start(node.name)),
      () => cluster.cut.add(`${x}${y}`),
      () => cluster.cut.clear(),
      () =>
        Object.assign(cluster.wire, { lossRatio: random.fraction() * 0.2, duplicateRatio: random.fraction() * 0.5 }),
      () => (cluster.wire.delayMsMax = random.pick([1, 20, 150])),
      () => node.disk.change({ full: random.chance(0.5) }),
      () => node.disk.change({ operationMs: random.pick([0.1, 5, 60]) }),
      () =>
        node.registry.interrupt(random.pick(['NO_QUORUM', 'DEADLINE', undefined]), {
          takesEffect: random.chance(0.3),
        }),
      () => node.registry.resume(),
      () => node.registry.resume(),
      () => node.life.pause(random.fraction() * 1_000),
      () => node.host.peerLost(cluster.node(random.pick(names)).id),
      () => this.#unplaced.add(random.pick(containers)),
      () => this.#assignOtherReplicas(random.pick(containers)),
    ];
    random.pick(faults)();
  }

  /** Assigns owners as the leader does, but far more often, and without waiting for a lease. */
  #place(container: number): void {
    const { cluster, random } = this;
    const record = cluster.record(container);
    if (record?.owner === undefined) return;
    const owner = cluster.byId(record.owner.node);
    const isServed = owner?.isUp === true && owner.generation === record.owner.generation;
    if (isServed && !this.#unplaced.has(container)) return;
    const isNew = record.opening === 'init' && record.phase === 'opening';
    const up = [...cluster.nodes.values()].filter(({ isUp }) => isUp);
    const able = up.filter(({ id }) => isNew || record.inSync.some(({ node }) => node === id));
    if (able.length === 0) return;
    this.#unplaced.delete(container);
    cluster.assignOwner(container, random.pick(able).name);
  }

  #assignOtherReplicas(container: number): void {
    const { cluster, random } = this;
    cluster.write(container, (record) => {
      if (record?.owner === undefined) return record;
      const first = record.owner.node;
      const rest = random.shuffled(names.map((name) => cluster.node(name).id).filter((id) => id !== first));
      const copies = [first, ...rest.slice(0, 1 + random.below(2))];
      return { ...record, copies, inSync: record.inSync.filter(({ node }) => copies.includes(node)) };
    });
  }
}

function runSeed(seed: number): number {
  const run = new RandomRun(seed);
  const { cluster } = run;
  for (let i = 0; i < 250; i++) run.step();
  run.heal();
  let acknowledged = 0;
  for (const container of containers) {
    const record = cluster.record(container);
    assert.ok(record?.phase === 'serving', `${container} is served`);
    const copies = record.copies.map((id) => cluster.byId(id)?.name ?? '').toSorted();
    assert.equal(cluster.inSyncNames(container), copies.join(''), `all replicas of ${container} are in sync`);
    const [owner, ...others] = record.copies.map((id) => cluster.byId(id)?.name ?? '');
    for (const other of others) {
      assert.deepEqual(cluster.state(other, container), cluster.state(owner ?? '', container));
      assert.deepEqual(cluster.meta(other, container).position, cluster.meta(owner ?? '', container).position);
    }
    for (const name of names) {
      if (!copies.includes(name))
        assert.equal(cluster.meta(name, container).slot, undefined, `${name} has dropped ${container}`);
    }
    acknowledged += run.expected.get(container)?.acknowledged ?? 0;
  }
  assert.equal(cluster.node('a').host.metrics().waiting, 0);
  return acknowledged;
}

test(`acknowledged commits are never lost, seeds ${firstSeed} to ${lastSeed}`, () => {
  let acknowledged = 0;
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    try {
      acknowledged += runSeed(seed);
    } catch (error) {
      assert.fail(`seed ${seed}: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
  const runs = lastSeed - firstSeed + 1;
  assert.ok(acknowledged > runs * 100, `${acknowledged} commits in ${runs} runs are too few to show anything`);
});
