/** Fake placer: completes moves and repairs in one step each, and records the moves. */
import assert from 'node:assert/strict';

import { fenceOf } from '../../src/base/fence.ts';
import type { NodeId } from '../../src/base/ids.ts';
import type { RegistryOp } from '../../src/base/registry.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../src/registry/cluster-keys.ts';
import {
  type ContainerMove,
  type ContainerRecord,
  encodeContainer,
  encodePool,
  readContainer,
} from '../../src/placement/state/container-records.ts';
import type { DrainTestCluster, DrainTestNode } from '../support/placement/drain-cluster.ts';

type SeenRecord = { readonly record: ContainerRecord; readonly revision: number };

export class FakePlacer {
  readonly #cluster: DrainTestCluster;
  readonly #pool: string;
  readonly #copies: number;
  readonly #seen = new Map<string, SeenRecord>();
  readonly moves: (ContainerMove & { readonly container: string; readonly from: NodeId; readonly atMs: number })[] = [];
  /** The most moves under way at the same time. */
  movingMost = 0;
  /** Undefined: a move never ends. */
  moveMs: number | undefined = 20;
  replacesReplicas = true;

  constructor(cluster: DrainTestCluster, copies: number, pool = 'q') {
    this.#cluster = cluster;
    this.#pool = pool;
    this.#copies = copies;
    cluster.registry.watch(
      keyRanges.containers,
      { revision: 1 },
      {
        changed: (changes) => {
          for (const change of changes) {
            const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
            if (key?.kind !== 'container' || key.pool !== pool) continue;
            if (change.kind === 'delete') this.#seen.delete(key.container);
            else this.#onRecord(key.container, readContainer(change.entry.value), change.entry.modRevision);
          }
        },
        compacted: () => assert.fail('the history is too short for this test'),
      },
    );
  }

  /** Creates served containers, owned by these nodes in turn, with replicas on the next nodes. */
  create(count: number, owners: string, others: Partial<ContainerRecord> = {}): void {
    const nodes = owners.split('').map((name) => this.#cluster.node(name));
    const pool = {
      ...{ major: 1, minor: 0, module: 'kv', moduleVersion: 0, containers: count, copies: this.#copies },
      ...({ durability: 'copies', restart: false, params: null, state: 'active' } as const),
    };
    const then: RegistryOp[] = [
      { kind: 'put', key: clusterKey({ kind: 'pool', pool: this.#pool }), value: encodePool(pool) },
    ];
    for (let index = 0; index < count; index++) {
      const ranked = [...nodes.slice(index % nodes.length), ...nodes.slice(0, index % nodes.length)];
      const holders = ranked.slice(0, this.#copies).map(({ id: node }) => ({ node, generation: 1 }));
      const record: ContainerRecord = {
        ...{ owner: holders[0], fence: fenceOf(1, 1), opening: 'init', phase: 'serving', move: undefined },
        ...{ copies: holders.map(({ node }) => node), inSync: holders, moduleVersion: 0, failures: 0, note: '' },
        ...others,
      };
      then.push(this.#put(String(index), record));
    }
    this.#cluster.registry.transact({ compare: [], then, otherwise: [] }, {}, () => {});
    this.#cluster.run(10);
  }

  owned(name: string): number {
    const { id } = this.#cluster.node(name);
    return [...this.#seen.values()].filter(({ record }) => record.owner?.node === id).length;
  }

  /** Replicas of that node, owned containers included. */
  held(name: string): number {
    const { id } = this.#cluster.node(name);
    return [...this.#seen.values()].filter(({ record }) => record.copies.includes(id)).length;
  }

  record(container: string): ContainerRecord {
    const found = this.#seen.get(container);
    assert.ok(found, `there is no container ${container}`);
    return found.record;
  }

  change(container: string, change: Partial<ContainerRecord>): void {
    this.#write(container, { ...this.record(container), ...change });
    this.#cluster.run(10);
  }

  /** Moves replicas from inactive to active nodes, where there is room. */
  repair(): void {
    for (const [container, { record }] of this.#seen) {
      const kept = record.copies.filter((id) => this.#isActive(id) || id === record.owner?.node);
      if (kept.length === record.copies.length || record.move !== undefined) continue;
      const free = this.#cluster.nodes.filter(({ id, mode }) => mode === 'active' && !record.copies.includes(id));
      const copies = [...kept, ...free.map(({ id }) => id)].slice(0, this.#copies);
      if (copies.length < Math.min(this.#copies, record.copies.length)) continue;
      this.#write(container, { ...record, copies, inSync: copies.map((node) => ({ node, generation: 1 })) });
    }
  }

  #onRecord(container: string, record: ContainerRecord | undefined, revision: number): void {
    if (record === undefined) return;
    const before = this.#seen.get(container)?.record;
    this.#seen.set(container, { record, revision });
    const { clock } = this.#cluster;
    this.movingMost = Math.max(
      this.movingMost,
      [...this.#seen.values()].filter((seen) => seen.record.move !== undefined).length,
    );
    if (record.move !== undefined && before?.move === undefined && before?.owner !== undefined) {
      this.moves.push({ ...record.move, container, from: before.owner.node, atMs: clock.nowMs() });
      assert.equal(before.phase, 'serving', 'a move starts from a served container');
      assert.ok(record.copies.includes(record.move.to), 'the destination is a replica first');
      if (this.moveMs !== undefined) clock.schedule(this.moveMs, () => this.#finish(container));
    }
    if (this.replacesReplicas) clock.schedule(5, () => this.repair());
  }

  #finish(container: string): void {
    const { record } = this.#seen.get(container) ?? {};
    if (record?.move === undefined) return;
    const { to } = record.move;
    const copies = [to, ...record.copies.filter((id) => id !== to)].slice(0, this.#copies);
    const inSync = copies.map((node) => ({ node, generation: 1 }));
    const fence = fenceOf(1, Number(record.fence & 0xffn) + 1);
    this.#write(container, { ...record, owner: inSync[0], copies, inSync, fence, opening: 'migrate', move: undefined });
  }

  #write(container: string, record: ContainerRecord): void {
    const seen = this.#seen.get(container);
    const put = this.#put(container, record);
    const key = clusterKey({ kind: 'container', pool: this.#pool, container });
    const compare = [{ key, target: 'modRevision', is: 'equal', than: seen?.revision ?? 0 }] as const;
    this.#cluster.registry.transact({ compare, then: [put], otherwise: [] }, {}, () => {});
  }

  #put(container: string, record: ContainerRecord): RegistryOp {
    const key = clusterKey({ kind: 'container', pool: this.#pool, container });
    return { kind: 'put', key, value: encodeContainer(record) };
  }

  #isActive(id: NodeId): boolean {
    return this.#cluster.nodes.find((node: DrainTestNode) => node.id === id)?.mode === 'active';
  }
}
