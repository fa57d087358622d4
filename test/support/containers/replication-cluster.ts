/**
 * A simulated cluster for tests of replication: nodes with disks, one registry, a network that delays, loses and
 * duplicates. The test plays the leader; each node opens the containers that the records assign to it.
 */
import assert from 'node:assert/strict';
import { type Done, type Outcome, failure } from '../../../src/base/errors.ts';
import { type Fence, fenceOf, fenceParts } from '../../../src/base/fence.ts';
import { type NodeId, parseNodeId } from '../../../src/base/ids.ts';
import type { Address, Cancel, Clock, Identity, Streams } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import { noFailpoints } from '../../../src/base/failpoints.ts';
import { onlyKey } from '../../../src/base/registry.ts';
import { decodeMessage, encodeMessage } from '../../../src/messages/catalogue.ts';
import type { ReplicationRequest } from '../../../src/messages/replication.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../../src/registry/cluster-keys.ts';
import { type FakeRegistry, fakeRegistry } from '../../fakes/fake-registry.ts';
import {
  type ContainerRecord,
  type PoolDurability,
  encodeContainer,
  readContainer,
} from '../../../src/placement/state/container-records.ts';
import { SimulatedDisk } from '../../../src/simulation/engine/simulated-disk.ts';
import { SimulatedProcess } from '../../../src/simulation/engine/simulated-process.ts';
import { simulatedStore } from '../../../src/simulation/world/simulated-store.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import type { ContainerChange, ContainerLog, KnownPool, StateEntry } from '../../../src/containers/contract.ts';
import type { ReplicationEvent } from '../../../src/containers/replication/replication-types.ts';
import { ReplicaManager } from '../../../src/containers/replication/replica-manager.ts';
import type { ReplicationSettings } from '../../../src/containers/replication/replication-types.ts';
import {
  type ReplicaMeta,
  replicaMetaKey,
  emptyMeta,
  readReplicaMeta,
  slotPrefix,
  slotRows,
} from '../../../src/containers/replication/replica-layout.ts';

export type LinkFaults = { lossRatio: number; duplicateRatio: number; delayMsMax: number };

export type OpenLog = { readonly log: ContainerLog; readonly fence: Fence };

export type TestNode = {
  readonly name: string;
  readonly id: NodeId;
  readonly disk: SimulatedDisk;
  generation: number;
  life: SimulatedProcess;
  host: ReplicaManager;
  registry: FakeRegistry;
  readonly opened: Map<number, OpenLog>;
  /** Per container, the highest fence under which the node has tried to open it. */
  readonly tried: Map<number, Fence>;
  readonly events: ReplicationEvent[];
  isUp: boolean;
};

export type Hosting = {
  readonly opened: (node: TestNode, change: ContainerChange, entries: readonly StateEntry[]) => void;
  readonly notOpened: (node: TestNode, change: ContainerChange, code: string) => void;
  readonly lost: (node: TestNode, change: ContainerChange, reason: string) => void;
};

const major = 7;

export class ReplicationTestCluster {
  readonly timeline = new Timeline();
  readonly random: Random;
  readonly registry: FakeRegistry;
  readonly nodes = new Map<string, TestNode>();
  readonly pool: KnownPool;
  readonly wire: LinkFaults = { lossRatio: 0, duplicateRatio: 0, delayMsMax: 1 };
  /** Pairs of nodes whose messages are dropped. */
  readonly cut = new Set<string>();
  readonly settings: Partial<ReplicationSettings>;
  hosting: Hosting = { opened: () => {}, notOpened: () => {}, lost: () => {} };
  /** `isGone` reports dead nodes. */
  reportsDeadNodes = false;
  readonly requests: { readonly from: string; readonly to: string; readonly message: ReplicationRequest }[] = [];

  constructor(seed: string, options: Partial<ReplicationSettings> & { readonly durability?: PoolDurability } = {}) {
    const { durability = 'copies', ...settings } = options;
    this.random = new Random(seed);
    this.settings = settings;
    this.registry = fakeRegistry({ clock: this.clock(undefined) });
    this.pool = {
      name: 'p',
      record: {
        major,
        minor: 0,
        module: 'm',
        moduleVersion: 0,
        containers: 4,
        copies: 2,
        durability,
        restart: true,
        params: null,
        state: 'active',
      },
    };
  }

  clock(life: SimulatedProcess | undefined): Clock {
    return {
      nowMs: () => this.timeline.nowMs,
      wallMs: () => this.timeline.nowMs,
      schedule: (ms, run) => (life === undefined ? this.timeline.after(ms, run) : life.after(ms, run)),
    };
  }

  node(name: string): TestNode {
    return this.nodes.get(name) as TestNode;
  }

  byId(id: NodeId): TestNode | undefined {
    return [...this.nodes.values()].find((node) => node.id === id);
  }

  /** Starts the node; it watches the records from that revision on. */
  start(name: string, fromRevision = 1): TestNode {
    const known = this.nodes.get(name);
    const id = parseNodeId(name.charCodeAt(0).toString(16).padStart(32, '0'));
    const disk = known?.disk ?? new SimulatedDisk(this.timeline, this.random.fork(`disk/${name}`));
    const life = new SimulatedProcess(this.timeline, {
      threw: (error) => {
        throw error;
      },
    });
    const generation = (known?.generation ?? 0) + 1;
    const registry = this.registry.connect();
    const events: ReplicationEvent[] = known?.events ?? [];
    const parts = { name, id, disk, generation, life, registry, events, isUp: true, host: undefined as never };
    const node: TestNode = { ...parts, opened: new Map(), tried: new Map() };
    node.host = this.#host(node);
    this.nodes.set(name, node);
    this.#watch(node, fromRevision);
    return node;
  }

  kill(name: string): void {
    const node = this.node(name);
    if (!node.isUp) return;
    node.isUp = false;
    node.life.exit();
    node.disk.crash('kept');
    node.opened.clear();
  }

  run(ms: number): void {
    this.timeline.runUntil(this.timeline.nowMs + ms);
  }

  /** Runs until the condition holds. */
  until(what: string, isSo: () => boolean, msMax = 10_000): void {
    const endMs = this.timeline.nowMs + msMax;
    while (!isSo()) {
      const nextMs = this.timeline.nextMs();
      if (nextMs === undefined || nextMs > endMs) assert.fail(`not within ${msMax} ms: ${what}`);
      this.timeline.step();
    }
  }

  record(container = 0): ContainerRecord | undefined {
    const value = this.registry.keyspace.range(onlyKey(recordKey(container)), 1).entries[0]?.value;
    return value === undefined ? undefined : readContainer(value);
  }

  /** Writes the record as the leader does, without a comparison. */
  write(container: number, change: (record: ContainerRecord | undefined) => ContainerRecord | undefined): void {
    const next = change(this.record(container));
    const key = recordKey(container);
    const op =
      next === undefined
        ? ({ kind: 'delete', range: onlyKey(key) } as const)
        : ({ kind: 'put', key, value: encodeContainer(next) } as const);
    this.registry.transact({ compare: [], then: [op], otherwise: [] }, {}, () => {});
  }

  create(container: number, names: readonly string[]): void {
    const ids = names.map((name) => this.node(name).id);
    const owner = { node: ids[0] as NodeId, generation: this.node(names[0] as string).generation };
    this.write(container, () => ({
      owner,
      fence: fenceOf(1, 1),
      opening: 'init',
      phase: 'opening',
      copies: ids,
      inSync: [owner],
      move: undefined,
      moduleVersion: 0,
      failures: 0,
      note: '',
    }));
  }

  /** Makes that node the owner under the next fence. */
  assignOwner(container: number, name: string, change: Partial<ContainerRecord> = {}): void {
    const { id, generation } = this.node(name);
    this.write(container, (record) => {
      assert(record);
      const owner = { node: id, generation };
      const { term, index } = fenceParts(record.fence);
      const copies = [id, ...record.copies.filter((one) => one !== id)];
      const inSync = record.inSync.map((holder) => (holder.node === id ? owner : holder));
      const isNew = record.opening === 'init' && record.phase === 'opening';
      const opening = isNew ? 'init' : 'recover';
      const next = { ...record, owner, fence: fenceOf(term, index + 1), opening, phase: 'opening', copies } as const;
      return { ...next, inSync: isNew ? [owner] : inSync, ...change };
    });
  }

  meta(name: string, container = 0): ReplicaMeta {
    const value = this.node(name).disk.store('store').peek(replicaMetaKey(major, container));
    return (value === undefined ? undefined : readReplicaMeta(value)) ?? emptyMeta;
  }

  /** The state in the valid slot on the disk of that node. */
  state(name: string, container = 0): Map<string, string> {
    const { slot } = this.meta(name, container);
    if (slot === undefined) return new Map();
    const prefix = slotPrefix(major, container, slot);
    const outcome = this.node(name)
      .disk.store('store')
      .read({ ...slotRows(prefix), limit: 1e9 });
    assert(outcome.ok);
    return new Map(outcome.value.map(({ key, value }) => [key.slice(prefix.length), textOf(value)]));
  }

  /** Reads single values of that state, which is cheaper than all of it. */
  value(name: string, container: number): (key: string) => string | undefined {
    const { slot } = this.meta(name, container);
    const prefix = slot === undefined ? '' : slotPrefix(major, container, slot);
    const content = this.node(name).disk.store('store');
    return (key) => {
      const value = slot === undefined ? undefined : content.peek(prefix + key);
      return value === undefined ? undefined : textOf(value);
    };
  }

  rows(name: string): number {
    return this.node(name).disk.store('store').size;
  }

  /** Commits at a node that has the container open, and waits for the outcome. */
  commit(name: string, container: number, pairs: Readonly<Record<string, string | null>>): Outcome<void> {
    const opened = this.node(name).opened.get(container);
    assert(opened, `${name} has not opened ${container}`);
    let ended: Outcome<void> | undefined;
    opened.log.commit(writesOf(pairs), (outcome) => (ended = outcome));
    assert.equal(ended, undefined);
    this.until('the commit ends', () => ended !== undefined);
    return ended as unknown as Outcome<void>;
  }

  inSyncNames(container = 0): string {
    const nodes = this.record(container)?.inSync.map(({ node }) => this.byId(node)?.name ?? '?') ?? [];
    return nodes.toSorted().join('');
  }

  #host(node: TestNode): ReplicaManager {
    const { id, generation, disk, life } = node;
    const ports = {
      self: { id, generation },
      store: simulatedStore(disk, life, 'store', noFailpoints),
      streams: this.#streams(node),
      registry: node.registry,
      clock: this.clock(life),
      addressOf: (other: NodeId): Address => ({ host: this.byId(other)?.name ?? '?', port: 1 }),
      isGone: (other: NodeId, lifeOf: number) => this.reportsDeadNodes && !this.#isAlive(other, lifeOf),
      emit: (event: ReplicationEvent) => node.events.push(event),
      onHalt: (error: unknown) => {
        throw error;
      },
    };
    return new ReplicaManager(ports, this.settings);
  }

  #isAlive(id: NodeId, generation: number): boolean {
    const node = this.byId(id);
    return node !== undefined && node.isUp && node.generation === generation;
  }

  #watch(node: TestNode, fromRevision: number): void {
    node.registry.watch(
      keyRanges.containers,
      { revision: fromRevision },
      {
        changed: (changes, revision) => {
          for (const change of changes) {
            const parsed = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
            if (parsed?.kind !== 'container') continue;
            const record = change.kind === 'put' ? readContainer(change.entry.value) : undefined;
            const parsedChange = { pool: this.pool, container: Number(parsed.container), record, revision };
            node.life.run(() => this.#changed(node, parsedChange));
          }
        },
        compacted: () => {},
      },
    );
  }

  #changed(node: TestNode, change: ContainerChange): void {
    const { record, container } = change;
    node.host.changed(change);
    if (record?.owner?.node !== node.id || record.owner.generation !== node.generation) return;
    if ((node.tried.get(container) ?? -1n) >= record.fence) return;
    node.tried.set(container, record.fence);
    const { fence } = record;
    let isLost = false;
    const lost = (reason: string): void => {
      isLost = true;
      const open = node.opened.get(container);
      if (open?.fence === fence) node.opened.delete(container);
      this.hosting.lost(node, change, reason);
    };
    node.host.open(change, lost, (outcome) => {
      if (!outcome.ok) return this.hosting.notOpened(node, change, outcome.error.code);
      const { log, entries } = outcome.value;
      // Not served before the record says so: until then a new container may be opened elsewhere.
      node.host.updateRecord(
        change,
        fence,
        (now) => ({ ...now, phase: 'serving' }),
        (updated) => {
          if (!updated.ok) return this.hosting.notOpened(node, change, updated.error.code);
          if (isLost) return;
          node.opened.set(container, { log, fence });
          this.hosting.opened(node, change, entries);
        },
      );
    });
  }

  #streams(from: TestNode): Pick<Streams, 'request'> {
    return { request: (to, body, timeoutMs, done) => this.#request(from, to, body.slice(), timeoutMs, done) };
  }

  #request(from: TestNode, to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel {
    const target = this.node(to.host);
    const message = decodeMessage(body) as ReplicationRequest;
    this.requests.push({ from: from.name, to: to.host, message });
    if (this.requests.length > 10_000) this.requests.splice(0, 5_000);
    let isOver = false;
    const end = (outcome: Outcome<Uint8Array>): void => {
      if (isOver) return;
      isOver = true;
      from.life.run(() => done(outcome));
    };
    this.timeline.after(timeoutMs, () => end(failure('DEADLINE')));
    const { life } = target;
    const deliver = (reply: (outcome: Outcome<Uint8Array>) => void): void => {
      if (this.random.chance(this.wire.lossRatio)) return;
      this.timeline.after(this.random.fraction() * this.wire.delayMsMax, () => {
        if (this.#isCut(from.name, to.host)) return;
        if (!life.alive) return reply(failure('UNREACHABLE'));
        life.run(() => {
          const identity = { id: from.id } as Identity;
          target.host.handle(identity, decodeMessage(body) as ReplicationRequest, (outcome) => {
            reply(outcome.ok ? { ok: true, value: encodeMessage(outcome.value) } : outcome);
          });
        });
      });
    };
    const sendReply = (outcome: Outcome<Uint8Array>): void => {
      if (this.random.chance(this.wire.lossRatio)) return;
      this.timeline.after(this.random.fraction() * this.wire.delayMsMax, () => {
        if (!this.#isCut(from.name, to.host)) end(outcome);
      });
    };
    deliver(sendReply);
    if (this.random.chance(this.wire.duplicateRatio)) {
      this.timeline.after(this.random.fraction() * 400, () => deliver(() => {}));
    }
    return () => end(failure('CANCELLED'));
  }

  #isCut(a: string, b: string): boolean {
    return this.cut.has(a < b ? `${a}${b}` : `${b}${a}`);
  }
}

function recordKey(container: number): string {
  return clusterKey({ kind: 'container', pool: 'p', container: String(container) });
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

export function textOf(value: Uint8Array): string {
  return decoder.decode(value);
}

export function writesOf(pairs: Readonly<Record<string, string | null>>): { key: string; value: Uint8Array | null }[] {
  return Object.entries(pairs).map(([key, value]) => ({ key, value: value === null ? null : encoder.encode(value) }));
}
