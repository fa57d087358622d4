/**
 * Test cluster for the placer, with nodes that the test controls. At each change of a record it checks that fences
 * grow, that at most one node serves a container, and that no acknowledged write is lost.
 */
import assert from 'node:assert/strict';

import type { Outcome } from '../../../src/base/errors.ts';
import { fenceOf } from '../../../src/base/fence.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Clock } from '../../../src/base/ports.ts';
import type { RegistryChange, RegistryOp } from '../../../src/base/registry.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../../src/registry/cluster-keys.ts';
import { type FakeRegistry, fakeRegistry } from '../../fakes/fake-registry.ts';
import type { PlacerEvent, PlacerOptions } from '../../../src/placement/leader/placer-types.ts';
import {
  type ContainerRecord,
  type PoolRecord,
  encodePool,
  readContainer,
} from '../../../src/placement/state/container-records.ts';
import type { RecoveryRanking } from '../../../src/placement/plans/planning-context.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { PlacementTestNode } from './placement-node.ts';

export const placementLeaseMs = 1_000;

/** Long enough for the history of a test. */
const limits = { historyChangesMax: 1_000_000, historyBytesMax: 1_000_000_000 };

export class PlacementTestCluster {
  readonly timeline = new Timeline();
  readonly clock: Clock;
  readonly registry: FakeRegistry;
  readonly nodes: PlacementTestNode[] = [];
  readonly options: Partial<PlacerOptions>;
  readonly rank: RecoveryRanking | undefined;
  readonly records = new Map<string, ContainerRecord>();
  readonly revisions = new Map<string, number>();
  readonly events: string[] = [];
  /** Acknowledged writes per container. */
  readonly acknowledged = new Map<string, number>();
  /** Called with each change of a record, before any node sees it. */
  onRecord: (fullName: string, record: ContainerRecord) => void = () => {};
  changes = 0;
  #term = 0;
  #major = 0;

  constructor(options: Partial<PlacerOptions> = {}, rank?: RecoveryRanking) {
    const { timeline } = this;
    this.clock = {
      nowMs: () => timeline.nowMs,
      wallMs: () => timeline.nowMs,
      schedule: (delayMs, run) => timeline.after(delayMs, run),
    };
    this.options = { servingLeaseMs: placementLeaseMs, copyRepairDelayMs: 2_000, ...options };
    this.rank = rank;
    this.registry = fakeRegistry({ clock: this.clock, limits });
    this.registry.watch(
      keyRanges.cluster,
      { revision: 1 },
      {
        changed: (changes) => {
          for (const change of changes) this.#onChange(change);
        },
        compacted: () => assert.fail('the history is too short for this test'),
      },
    );
  }

  /** Adds active nodes, named a, b, c ... */
  add(count = 1): void {
    for (let index = 0; index < count; index++) {
      const number = this.nodes.length + 1;
      const id = nodeIdFrom(new Uint8Array(16).fill(number));
      const node = new PlacementTestNode(this, String.fromCharCode(96 + number), id);
      this.nodes.push(node);
      node.start();
    }
    this.run(20);
  }

  node(name: string): PlacementTestNode {
    const found = this.nodes.find((node) => node.name === name || node.id === name);
    assert.ok(found, `there is no node ${name}`);
    return found;
  }

  nameOf(id: string | undefined): string {
    return this.nodes.find((node) => node.id === id)?.name ?? id ?? '-';
  }

  create(name: string, record: Partial<PoolRecord> = {}): void {
    this.#major += 1;
    this.put(name, {
      ...{
        major: this.#major,
        minor: 0,
        module: 'm',
        moduleVersion: 0,
        containers: 4,
        copies: 2,
        durability: 'copies',
      },
      ...{ restart: false, params: null, state: 'active', ...record },
    });
  }

  put(name: string, record: PoolRecord): void {
    this.write([{ kind: 'put', key: clusterKey({ kind: 'pool', pool: name }), value: encodePool(record) }]);
  }

  write(then: readonly RegistryOp[]): void {
    this.registry.transact({ compare: [], then, otherwise: [] }, {}, (outcome) => assert.ok(outcome.ok));
  }

  /** Makes that node leader; `before` says whether the former leader knows it. */
  lead(name: string, before: 'knows' | 'does not know' = 'knows'): void {
    this.#term += 1;
    for (const node of this.nodes) {
      if (node.name === name) node.leadership.become(fenceOf(this.#term, 1));
      else if (before === 'knows') node.leadership.lose();
    }
    this.#leader = this.node(name);
  }

  #leader: PlacementTestNode | undefined;

  /** The latest leader; it may be down. */
  get leader(): PlacementTestNode | undefined {
    return this.#leader;
  }

  run(durationMs: number): void {
    this.timeline.runUntil(this.timeline.nowMs + durationMs);
  }

  until(holds: () => boolean, withinMs: number, what: string): number {
    const beginMs = this.timeline.nowMs;
    while (!holds()) {
      if (this.timeline.nowMs - beginMs > withinMs) assert.fail(`not within ${withinMs} ms: ${what}\n${this.print()}`);
      this.run(5);
    }
    return this.timeline.nowMs - beginMs;
  }

  /** Requests a move and runs until it has started or was refused. */
  move(fullName: string, to: string): Outcome<void> {
    const [pool = '', number] = fullName.split('/');
    let reply: Outcome<void> | undefined;
    const id = this.nodes.find((node) => node.name === to)?.id ?? nodeIdFrom(new Uint8Array(16).fill(99));
    const placer = this.#leader?.placer ?? assert.fail('no leader');
    placer.requestMove(pool, Number(number), id, 'admin', (outcome) => {
      reply = outcome;
    });
    this.until(() => reply !== undefined, 10_000, 'a reply');
    return reply as unknown as Outcome<void>;
  }

  record(fullName: string): ContainerRecord {
    return this.records.get(fullName) ?? assert.fail(`there is no container ${fullName}`);
  }

  ownerOf(fullName: string): string {
    return this.nameOf(this.records.get(fullName)?.owner?.node);
  }

  countOn(name: string): number {
    return [...this.records.keys()].filter((fullName) => this.ownerOf(fullName) === name).length;
  }

  /** The first container of that owner. */
  ownedBy(name: string): string {
    const fullName = [...this.records.keys()].find((one) => this.ownerOf(one) === name);
    return fullName ?? assert.fail(`${name} owns nothing\n${this.print()}`);
  }

  eventsOf(kind: string): readonly string[] {
    return this.events.filter((event) => event.startsWith(kind));
  }

  /** The record in the view of the leader. */
  pool(name: string): PoolRecord {
    const record = this.#leader?.placer?.view?.pools.get(name)?.record;
    return record ?? assert.fail('the leader does not know the pool');
  }

  inSync(fullName: string): string {
    return this.record(fullName)
      .inSync.map(({ node }) => this.nameOf(node))
      .toSorted()
      .join(' ');
  }

  copies(fullName: string): string {
    return this.record(fullName)
      .copies.map((id) => this.nameOf(id))
      .join(' ');
  }

  /** True if live nodes serve all containers, each with `copies` replicas, all in sync. */
  isSettled(copies: number): boolean {
    return [...this.records].every(([fullName, record]) => {
      const isServed =
        record.phase === 'serving' && record.move === undefined && this.node(this.ownerOf(fullName)).isUp;
      return isServed && record.inSync.length === copies && record.copies.length === copies;
    });
  }

  settle(copies: number, withinMs = 15_000): void {
    this.until(() => this.records.size > 0 && this.isSettled(copies), withinMs, `settled with ${copies} copies`);
  }

  print(): string {
    const lines = [...this.records].map(([fullName, record]) => {
      const { phase, opening, fence, failures, note, move } = record;
      const where = `${this.ownerOf(fullName)} of [${this.copies(fullName)}] in sync [${this.inSync(fullName)}]`;
      const step = move === undefined ? '' : ` ${move.step} to ${this.nameOf(move.to)}`;
      return `${fullName} ${where} ${phase} ${opening} fence ${fence} failures ${failures}${step} ${note}`;
    });
    return [...lines, ...this.events.slice(-20)].join('\n');
  }

  onEvent(event: PlacerEvent): void {
    if (!('container' in event)) {
      this.events.push('pool' in event ? `${event.kind} ${event.pool}` : event.kind);
      return;
    }
    const { kind, pool, container, node, from, reason, needsAttention } = event;
    const ends = `${this.nameOf(from)} -> ${this.nameOf(node)}`;
    this.events.push(`${kind} ${pool}/${container} ${ends}: ${reason}${needsAttention ? ' (alarm)' : ''}`);
  }

  #onChange(change: RegistryChange): void {
    const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
    if (key?.kind !== 'container') return;
    this.changes += 1;
    const fullName = `${key.pool}/${key.container}`;
    const record = change.kind === 'put' ? readContainer(change.entry.value) : undefined;
    if (change.kind === 'delete' || record === undefined) {
      this.records.delete(fullName);
      return;
    }
    const before = this.records.get(fullName);
    if (before !== undefined) this.#check(fullName, before, record);
    assert.equal(record.copies[0], record.owner?.node, 'the owner is the first of the copies');
    assert.ok(record.inSync.length > 0, `no node has the state of ${fullName}`);
    for (const { node } of record.inSync)
      assert.ok(record.copies.includes(node), 'a member of the ISR is not a replica');
    this.records.set(fullName, record);
    this.revisions.set(fullName, change.entry.modRevision);
    this.onRecord(fullName, record);
  }

  #check(fullName: string, before: ContainerRecord, record: ContainerRecord): void {
    assert.ok(record.fence >= before.fence, `the fence of ${fullName} decreased`);
    const isSame =
      before.owner?.node === record.owner?.node &&
      before.owner?.generation === record.owner?.generation &&
      (before.phase === 'opening' || record.phase === 'serving' || record.failures > before.failures);
    if (!isSame) assert.ok(record.fence > before.fence, `${fullName} has another owner under the same fence`);
    if (isSame || record.opening === 'init') return;
    const holders = before.inSync.map(({ node }) => node);
    assert.ok(holders.includes(record.owner?.node as never), `the new owner of ${fullName} lacks its state`);
  }
}

/** A cluster of active nodes with one pool p, all settled; a leads. */
export function settledCluster(
  nodes: number,
  pool: Partial<PoolRecord> = {},
  options: Partial<PlacerOptions> = {},
  rank?: RecoveryRanking,
): PlacementTestCluster {
  const cluster = new PlacementTestCluster(options, rank);
  cluster.add(nodes);
  cluster.lead('a');
  cluster.create('p', pool);
  cluster.settle(Math.min(nodes, pool.copies ?? 2));
  return cluster;
}
