/**
 * Random lives of three nodes: crashes, cuts, a lossy wire that doubles, full disks, a registry that does not answer, a
 * leader that gives containers away while their owners still live. After every acknowledgement: whoever the record names
 * as in sync has every acknowledged write. In the end, when all is well again: everybody who should have a copy has it.
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

/** What must be true of a container, from what its owners have acknowledged and shown. */
class Expected {
  readonly present = new Map<string, string>();
  readonly absent = new Set<string>();
  /** Deleted by a commit of which nobody knows whether it has happened. */
  readonly unsure = new Set<string>();
  hot = 0;
  acknowledged = 0;

  check(valueOf: (key: string) => string | undefined, where: string): void {
    for (const [key, value] of this.present) {
      if (this.unsure.has(key) || valueOf(key) === value) continue;
      assert.fail(`${where} lacks ${key}, which was acknowledged`);
    }
    for (const key of this.absent) if (valueOf(key) !== undefined) assert.fail(`${where} has ${key} back`);
    if (Number(valueOf('hot') ?? 0) < this.hot) assert.fail(`${where} has an old value`);
  }

  deleted(key: string): void {
    this.absent.add(key);
    for (const oldest of this.absent) if (this.absent.size > 50) this.absent.delete(oldest);
  }

  /** Whoever has read this must never find less. */
  shown(entries: readonly StateEntry[]): void {
    const state = new Map(entries.map(({ key, value }) => [key, textOf(value)]));
    this.check((key) => state.get(key), 'what was opened');
    for (const [key, value] of state) if (key !== 'hot') this.present.set(key, value);
    for (const key of this.unsure) if (!state.has(key)) this.deleted(key);
    for (const key of this.absent) this.present.delete(key);
    this.unsure.clear();
    this.hot = Math.max(this.hot, Number(state.get('hot') ?? 0));
  }
}

class Lives {
  readonly world: ReplicationTestCluster;
  readonly random: Random;
  readonly expected = new Map(containers.map((container) => [container, new Expected()]));
  readonly #unplaced = new Set<number>();
  #counter = 0;
  #isCalm = false;

  constructor(seed: number) {
    this.world = new ReplicationTestCluster(`lives/${seed}`, {
      tailBytesMax: seed % 3 === 0 ? 200 : 4_000,
      copyAckTimeoutMs: 200,
    });
    this.world.knowsTheDead = seed % 2 === 0;
    this.random = this.world.random.fork('lives');
    this.world.hosting = {
      opened: (_node, { container }, entries) => {
        this.#expected(container).shown(entries);
        this.checkAll(container);
      },
      notOpened: (_node, { container }) => this.#unplaced.add(container),
      lost: (_node, { container }) => this.#unplaced.add(container),
    };
    for (const name of names) this.world.start(name);
    for (const container of containers) this.world.create(container, this.random.shuffled([...names]).slice(0, 2));
  }

  #expected(container: number): Expected {
    return this.expected.get(container) as Expected;
  }

  checkAll(container: number): void {
    const expected = this.#expected(container);
    const record = this.world.record(container);
    if (record === undefined || (record.opening === 'init' && record.phase === 'opening')) return;
    for (const { node } of record.inSync) {
      const name = this.world.byId(node)?.name ?? '';
      expected.check(this.world.value(name, container), `${name} for ${container} at ${this.world.timeline.nowMs}`);
    }
  }

  step(): void {
    const { random, world } = this;
    for (const node of world.nodes.values()) if (node.isUp && random.chance(0.5)) this.#work(node);
    if (!this.#isCalm && random.chance(0.06)) this.#trouble();
    if (random.chance(0.1)) for (const container of containers) this.#place(container);
    world.run(random.fraction() * 20);
    for (const container of containers) this.checkAll(container);
  }

  calm(): void {
    const { world } = this;
    this.#isCalm = true;
    world.cut.clear();
    Object.assign(world.wire, { lossRatio: 0, doubleRatio: 0, delayMsMax: 1 });
    for (const name of names) {
      const node = world.node(name);
      node.disk.heal();
      node.side.resume();
      if (!node.isUp) world.start(name);
    }
    for (let i = 0; i < 300; i++) this.step();
    for (const { id, host } of world.nodes.values()) {
      host.reconcile((_pool, container) => (world.record(container)?.copies.includes(id) ? 'mine' : 'notMine'));
    }
    world.run(20_000);
  }

  #work(node: TestNode): void {
    const { random } = this;
    for (const [container, { log }] of node.opened) {
      const expected = this.#expected(container);
      for (let left = random.below(4); left > 0; left--) {
        const n = ++this.#counter;
        const key = `k${random.below(12)}.${n}`;
        const doomed = random.chance(0.9) ? random.pick([...expected.present.keys(), '']) : '';
        const pairs: Record<string, string | null> = { [key]: 'v'.repeat(random.below(60)), hot: String(n) };
        if (doomed !== '') {
          pairs[doomed] = null;
          expected.unsure.add(doomed);
        }
        log.commit(writesOf(pairs), (outcome) => {
          if (outcome.ok) this.#acknowledged(container, key, pairs, doomed, n);
        });
      }
    }
  }

  #acknowledged(
    container: number,
    key: string,
    pairs: Readonly<Record<string, string | null>>,
    doomed: string,
    n: number,
  ): void {
    const expected = this.#expected(container);
    expected.acknowledged += 1;
    expected.present.set(key, pairs[key] ?? '');
    if (doomed !== '') {
      expected.present.delete(doomed);
      expected.unsure.delete(doomed);
      expected.deleted(doomed);
    }
    expected.hot = Math.max(expected.hot, n);
    this.checkAll(container);
  }

  #trouble(): void {
    const { random, world } = this;
    const node = world.node(random.pick(names));
    const [x, y] = random
      .shuffled([...names])
      .slice(0, 2)
      .toSorted();
    const troubles: (() => void)[] = [
      () => world.kill(node.name),
      () => world.kill(node.name),
      () => (node.isUp ? undefined : world.start(node.name)),
      () => (node.isUp ? undefined : world.start(node.name)),
      () => world.cut.add(`${x}${y}`),
      () => world.cut.clear(),
      () => Object.assign(world.wire, { lossRatio: random.fraction() * 0.2, doubleRatio: random.fraction() * 0.5 }),
      () => (world.wire.delayMsMax = random.pick([1, 20, 150])),
      () => node.disk.change({ full: random.chance(0.5) }),
      () => node.disk.change({ operationMs: random.pick([0.1, 5, 60]) }),
      () => node.side.interrupt(random.pick(['NO_QUORUM', 'DEADLINE', undefined]), { happens: random.chance(0.3) }),
      () => node.side.resume(),
      () => node.side.resume(),
      () => node.life.pause(random.fraction() * 1_000),
      () => node.host.peerLost(world.node(random.pick(names)).id),
      () => this.#unplaced.add(random.pick(containers)),
      () => this.#otherCopies(random.pick(containers)),
    ];
    random.pick(troubles)();
  }

  /** As the leader would, but far more often, and without waiting for a lease. */
  #place(container: number): void {
    const { world, random } = this;
    const record = world.record(container);
    if (record?.owner === undefined) return;
    const owner = world.byId(record.owner.node);
    const isServed = owner?.isUp === true && owner.generation === record.owner.generation;
    if (isServed && !this.#unplaced.has(container)) return;
    const isNew = record.opening === 'init' && record.phase === 'opening';
    const up = [...world.nodes.values()].filter(({ isUp }) => isUp);
    const able = up.filter(({ id }) => isNew || record.inSync.some(({ node }) => node === id));
    if (able.length === 0) return;
    this.#unplaced.delete(container);
    world.give(container, random.pick(able).name);
  }

  #otherCopies(container: number): void {
    const { world, random } = this;
    world.write(container, (record) => {
      if (record?.owner === undefined) return record;
      const first = record.owner.node;
      const rest = random.shuffled(names.map((name) => world.node(name).id).filter((id) => id !== first));
      const copies = [first, ...rest.slice(0, 1 + random.below(2))];
      return { ...record, copies, inSync: record.inSync.filter(({ node }) => copies.includes(node)) };
    });
  }
}

function live(seed: number): number {
  const lives = new Lives(seed);
  const { world } = lives;
  for (let i = 0; i < 250; i++) lives.step();
  lives.calm();
  let acknowledged = 0;
  for (const container of containers) {
    const record = world.record(container);
    assert.ok(record?.phase === 'serving', `${container} is served`);
    const copies = record.copies.map((id) => world.byId(id)?.name ?? '').toSorted();
    assert.equal(world.inSyncNames(container), copies.join(''), `all copies of ${container} are in sync`);
    const [owner, ...others] = record.copies.map((id) => world.byId(id)?.name ?? '');
    for (const other of others) {
      assert.deepEqual(world.state(other, container), world.state(owner ?? '', container));
      assert.deepEqual(world.meta(other, container).position, world.meta(owner ?? '', container).position);
    }
    for (const name of names) {
      const isHeld = copies.includes(name);
      if (!isHeld) assert.equal(world.meta(name, container).slot, undefined, `${name} has dropped ${container}`);
    }
    acknowledged += lives.expected.get(container)?.acknowledged ?? 0;
  }
  assert.equal(world.node('a').host.metrics().waiting, 0);
  return acknowledged;
}

test(`what is acknowledged stays, seeds ${firstSeed} to ${lastSeed}`, () => {
  let acknowledged = 0;
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    try {
      acknowledged += live(seed);
    } catch (error) {
      assert.fail(`seed ${seed}: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
  const runs = lastSeed - firstSeed + 1;
  assert.ok(acknowledged > runs * 100, `${acknowledged} commits in ${runs} runs are too few to show anything`);
});
