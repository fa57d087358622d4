/** Test cluster for assignments; checks at every revision that each is in one place. */
import assert from 'node:assert/strict';

import { type Done, type Outcome, failure, success } from '../../../src/base/errors.ts';
import { type Fence, fenceOf } from '../../../src/base/fence.ts';
import { type NodeId, nodeIdFrom } from '../../../src/base/ids.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { LeaseId, RegistryChange, RegistryOp } from '../../../src/base/registry.ts';
import { AssignerHost } from '../../../src/placement/leader/assigner-host.ts';
import type { AssignerOptions } from '../../../src/placement/leader/assigner.ts';
import type { HeldAssignment } from '../../../src/placement/assignments/assignments-held.ts';
import { type AssignmentHost, AssignmentsHeldHost } from '../../../src/placement/assignments/assignments-held-host.ts';
import type { BalanceReport } from '../../../src/placement/balance/balance-report.ts';
import { NodeOperations } from '../../../src/placement/operations/node-operations.ts';
import { type RebalanceOptions, rebalanceOptions } from '../../../src/placement/balance/rebalance-options.ts';
import { type AssignmentHint, nameText, noHint } from '../../../src/registry/assignment/record.ts';
import { creation } from '../../../src/placement/leader/transactions.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../../src/registry/cluster-keys.ts';
import { type FakeRegistry, fakeRegistry } from '../../fakes/fake-registry.ts';
import type { NodeMode, StateReason } from '../../../src/registration/node-modes.ts';
import * as records from '../../../src/registration/registration-records.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { FakeLeadership } from '../../fakes/fake-leadership.ts';

export const ttlMs = 3_000;
const renewMs = 500;
const selfStopMs = 0.8 * ttlMs;
const lostAfterMs = 0.1 * ttlMs;

export type ClusterOptions = {
  readonly seed: string;
  readonly rebalance: Partial<RebalanceOptions>;
  readonly assigner: Partial<AssignerOptions>;
  /** Of a host to take or release. */
  readonly delayMsMax: number;
  /** How often a host fails. */
  readonly failures: number;
};

export class AssignmentTestCluster {
  readonly timeline = new Timeline();
  readonly clock: Clock;
  readonly registry: FakeRegistry;
  readonly random: Random;
  readonly options: ClusterOptions;
  readonly rebalance: RebalanceOptions;
  readonly operations: NodeOperations;
  readonly nodes: AssignmentTestNode[] = [];
  /** Who really serves what at this moment. */
  readonly serving = new Map<string, AssignmentTestNode>();
  readonly created = new Set<string>();
  revisionsChecked = 0;
  #term = 0;
  readonly #places = new Map<string, Set<string>>();
  readonly #registered = new Set<NodeId>();

  constructor(options: Partial<ClusterOptions> = {}) {
    const { timeline } = this;
    this.clock = {
      nowMs: () => timeline.nowMs,
      wallMs: () => timeline.nowMs,
      schedule: (delayMs, run) => timeline.after(delayMs, run),
    };
    this.options = { seed: '1', rebalance: {}, assigner: {}, delayMsMax: 20, failures: 0, ...options };
    this.rebalance = rebalanceOptions('balanced', { strategy: 'fair', ...this.options.rebalance });
    this.random = new Random(`assignment/${this.options.seed}`);
    this.registry = fakeRegistry({ clock: this.clock });
    this.operations = new NodeOperations(this.registry, this.clock, this.rebalance);
    this.registry.watch(keyRanges.cluster, 1, {
      changed: (changes) => {
        for (const change of changes) this.#move(change);
        this.#checkPlaces(changes);
      },
      compacted: () => assert.fail('the history is too short for this test'),
    });
  }

  /** Nodes are called a, b, c ... and begin active. */
  add(count = 1, mode: NodeMode = 'active'): void {
    for (let index = 0; index < count; index++) {
      const number = this.nodes.length + 1;
      const node = new AssignmentTestNode(
        this,
        String.fromCharCode(96 + number),
        nodeIdFrom(new Uint8Array(16).fill(number)),
      );
      this.nodes.push(node);
      node.start(mode, 'boot');
    }
    this.run(50);
  }

  node(name: string): AssignmentTestNode {
    const found = this.nodes.find((node) => node.name === name);
    assert.ok(found, `there is no node ${name}`);
    return found;
  }

  create(count: number, hint: Partial<AssignmentHint> = {}, pool = 'p'): void {
    const first = this.created.size;
    const then: RegistryOp[] = [];
    for (let index = first; index < first + count; index++) {
      const name = { pool, container: String(index) };
      this.created.add(nameText(name));
      then.push(creation(name, { ...noHint, ...hint }));
    }
    this.registry.transact({ compare: [], then, otherwise: [] }, {}, () => {});
  }

  /** From now on that node leads; the one before may not have heard of it. */
  lead(name: string, before: 'knows' | 'does not know' = 'knows'): Fence {
    this.#term += 1;
    const fence = fenceOf(this.#term, 1);
    for (const node of this.nodes) {
      if (node.name === name) node.leadership.become(fence);
      else if (before === 'knows') node.leadership.lose();
    }
    return fence;
  }

  run(durationMs: number): void {
    this.timeline.runUntil(this.timeline.nowMs + durationMs);
  }

  /** Runs until it holds, or fails after the time. */
  until(holds: () => boolean, withinMs: number, what: string): number {
    const beginMs = this.timeline.nowMs;
    while (!holds()) {
      if (this.timeline.nowMs - beginMs > withinMs) assert.fail(`not within ${withinMs} ms: ${what}\n${this.print()}`);
      this.run(10);
    }
    return this.timeline.nowMs - beginMs;
  }

  /** Calls and runs until it has ended. */
  ask<T>(start: (done: Done<T>) => void): Outcome<T> {
    let ended: Outcome<T> | undefined;
    start((outcome) => {
      ended = outcome;
    });
    this.until(() => ended !== undefined, 10_000, 'an answer');
    return ended as Outcome<T>;
  }

  balance(): BalanceReport {
    const outcome = this.ask<BalanceReport>((done) => this.operations.balance(done));
    assert.ok(outcome.ok);
    return outcome.value;
  }

  /** Name to place: a node's name, or "-" while it waits. */
  places(): ReadonlyMap<string, string> {
    return new Map([...this.#places].map(([text, places]) => [text, [...places].join('+')]));
  }

  countOn(name: string): number {
    return [...this.places().values()].filter((place) => place === name).length;
  }

  /** Everything is assigned to an active node, and served by it. */
  isSettled(): boolean {
    return [...this.places()].every(([text, place]) => {
      const owner = this.nodes.find((node) => node.name === place);
      return owner !== undefined && owner.mode === 'active' && this.serving.get(text) === owner;
    });
  }

  print(): string {
    const nodes = this.nodes.map(({ name, isUp, mode }) => `${name} ${isUp ? 'up' : 'down'} ${mode}`).join(', ');
    const places = [...this.places()].map(([text, place]) => `${text}:${place}/${this.serving.get(text)?.name ?? '-'}`);
    return `seed ${this.options.seed} at ${this.timeline.nowMs} ms: ${nodes}\n${places.join(' ')}`;
  }

  #move(change: RegistryChange): void {
    const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
    if (key?.kind === 'state') {
      const node = this.nodes.find(({ id }) => id === key.node);
      const state = change.kind === 'put' ? records.readNodeState(change.entry.value) : undefined;
      if (node !== undefined && state !== undefined) {
        node.mode = state.mode;
        node.state = state;
      }
    }
    if (key?.kind === 'registration') {
      if (change.kind === 'put') this.#registered.add(key.node);
      else {
        this.#registered.delete(key.node);
        this.clock.schedule(lostAfterMs, () => this.#lose(key.node));
      }
    }
    if (key?.kind !== 'assignment' && key?.kind !== 'unassigned') return;
    if (key.kind === 'assignment' && change.kind === 'put' && change.entry.version === 1) {
      const owner = this.nodes.find(({ id }) => id === key.node);
      const isFit = owner?.mode === 'active' && this.#registered.has(key.node);
      if (!isFit) assert.fail(`${owner?.name} is ${owner?.mode} and was given ${nameText(key)}\n${this.print()}`);
    }
    const place = key.kind === 'assignment' ? (this.nodes.find(({ id }) => id === key.node)?.name ?? key.node) : '-';
    const places = this.#places.get(nameText(key)) ?? new Set();
    this.#places.set(nameText(key), places);
    if (change.kind === 'put') places.add(place);
    else places.delete(place);
  }

  /** What the expiry worker does. */
  #lose(id: NodeId): void {
    const state = this.nodes.find((node) => node.id === id)?.state;
    if (state === undefined) return;
    const registration = clusterKey({ kind: 'registration', node: id });
    const value = records.encodeRegistrationRecord({ ...state, lost: true });
    const then: RegistryOp[] = [{ kind: 'put', key: clusterKey({ kind: 'state', node: id }), value }];
    const compare = [{ key: registration, target: 'version', is: 'equal', than: 0 }] as const;
    this.registry.transact({ compare, then, otherwise: [] }, {}, () => {});
  }

  /** Those that a revision has changed; the others are as they were. */
  #checkPlaces(changes: readonly RegistryChange[]): void {
    this.revisionsChecked += 1;
    for (const change of changes) {
      const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
      if (key?.kind !== 'assignment' && key?.kind !== 'unassigned') continue;
      const places = [...(this.#places.get(nameText(key)) ?? [])];
      if (places.length !== 1) assert.fail(`${nameText(key)} is in "${places.join(' ')}"\n${this.print()}`);
      if (!this.created.has(nameText(key))) assert.fail(`${nameText(key)} came from nowhere`);
    }
  }
}

/** So many nodes, a leads, so many assignments, all settled. */
export function settled(nodes: number, assignments: number, options: Partial<ClusterOptions> = {}) {
  const cluster = new AssignmentTestCluster(options);
  cluster.add(nodes);
  cluster.lead('a');
  cluster.create(assignments);
  cluster.until(() => cluster.places().size === assignments && cluster.isSettled(), 5_000, 'all settled');
  return cluster;
}

export class AssignmentTestNode {
  readonly name: string;
  readonly id: NodeId;
  readonly leadership: FakeLeadership;
  readonly #cluster: AssignmentTestCluster;
  registry: FakeRegistry;
  held!: AssignmentsHeldHost;
  assigner!: AssignerHost;
  mode: NodeMode = 'joining';
  state: records.NodeStateRecord | undefined;
  isUp = false;
  /** Overrides what the host does; undefined is the usual. */
  takes: AssignmentHost['take'] | undefined;
  releases: AssignmentHost['release'] | undefined;
  readonly taken: string[] = [];
  readonly fences = new Map<string, number>();
  #life = 0;
  #lease: LeaseId | undefined;
  #goodMs = 0;
  #suspended = false;

  constructor(cluster: AssignmentTestCluster, name: string, id: NodeId) {
    this.#cluster = cluster;
    this.name = name;
    this.id = id;
    this.leadership = new FakeLeadership(id);
    this.registry = cluster.registry.connect();
  }

  start(mode: NodeMode, reason: StateReason): void {
    const { clock, rebalance, options } = this.#cluster;
    const life = ++this.#life;
    this.isUp = true;
    this.registry = this.#cluster.registry.connect();
    const ports = { registry: this.registry, clock, onHalt: (error: unknown) => assert.fail(String(error)) };
    const host = {
      take: (assignment: HeldAssignment, done: Done<void>) => (this.takes ?? this.#take(life))(assignment, done),
      release: (assignment: HeldAssignment, done: Done<void>) =>
        (this.releases ?? this.#release(life))(assignment, done),
    };
    this.held = new AssignmentsHeldHost(this.id, { ...ports, host, tell: () => {} });
    const { leadership } = this;
    const assigner = { rebalance, ...options.assigner };
    this.assigner = new AssignerHost({ ...ports, leadership, emit: () => {} }, assigner);
    this.#enter(life, mode, reason);
    this.#watchLease(life);
  }

  /** The process ends at once; what it served it serves no longer. */
  kill(): void {
    this.#life += 1;
    this.isUp = false;
    this.#lease = undefined;
    this.held.stop();
    this.assigner.stop();
    this.leadership.lose();
    for (const [text, node] of this.#cluster.serving) if (node === this) this.#cluster.serving.delete(text);
  }

  cut(): void {
    this.registry.interrupt();
  }

  heal(): void {
    this.registry.resume();
  }

  setMode(mode: NodeMode, reason: StateReason): void {
    this.#write(mode, reason, undefined, () => {});
  }

  #write(mode: NodeMode, reason: StateReason, lease: LeaseId | undefined, done: Done<unknown>): void {
    const own = { generation: this.#life, epoch: 1 };
    const state = records.encodeRegistrationRecord({ ...own, mode, reason, lost: false, sinceWallMs: 0, note: '' });
    const address = { ...own, name: this.name, host: 'h', port: 1, roles: ['worker'], dc: 'd' } as const;
    const then: RegistryOp[] = [{ kind: 'put', key: clusterKey({ kind: 'state', node: this.id }), value: state }];
    const key = clusterKey({ kind: 'registration', node: this.id });
    if (lease !== undefined) then.push({ kind: 'put', key, value: records.encodeRegistrationRecord(address), lease });
    this.registry.transact({ compare: [], then, otherwise: [] }, { timeoutMs: 1_000 }, done);
  }

  #enter(life: number, mode: NodeMode, reason: StateReason): void {
    const sentMs = this.#cluster.timeline.nowMs;
    const again = (): void => {
      this.#cluster.clock.schedule(200, () => life === this.#life && this.#enter(life, mode, reason));
    };
    this.registry.grant(ttlMs, { timeoutMs: 1_000 }, (granted) => {
      if (life !== this.#life) return;
      if (!granted.ok) return again();
      const { lease } = granted.value;
      this.#write(mode, reason, lease, (written) => {
        if (life !== this.#life) return;
        if (!written.ok) return again();
        this.#lease = lease;
        this.#goodMs = sentMs;
        this.#suspended = false;
        this.held.resume();
      });
    });
  }

  #watchLease(life: number): void {
    if (life !== this.#life) return;
    const { timeline, clock } = this.#cluster;
    clock.schedule(renewMs / 5, () => this.#watchLease(life));
    const lease = this.#lease;
    if (lease === undefined) return;
    if (timeline.nowMs - this.#goodMs >= selfStopMs && !this.#suspended) {
      this.#suspended = true;
      this.held.suspend();
      // As the ports promise: at that moment nothing is served any more, however long letting go takes.
      for (const [text, node] of this.#cluster.serving) if (node === this) this.#cluster.serving.delete(text);
    }
    if (timeline.nowMs - this.#goodMs < renewMs) return;
    const sentMs = timeline.nowMs;
    this.registry.keepAlive(lease, { timeoutMs: 400 }, (outcome) => {
      if (life !== this.#life || lease !== this.#lease) return;
      if (outcome.ok) {
        this.#goodMs = Math.max(this.#goodMs, sentMs);
        if (this.#suspended) this.held.resume();
        this.#suspended = false;
      } else if (outcome.error.code === 'LEASE_EXPIRED') {
        this.#lease = undefined;
        this.#enter(life, 'drained', 'registration_expired');
      }
    });
  }

  #take(life: number): AssignmentHost['take'] {
    return (assignment, done) => {
      const { random, options, clock, serving } = this.#cluster;
      clock.schedule(random.below(options.delayMsMax + 1), () => {
        if (life !== this.#life) return;
        if (random.chance(options.failures)) return done(failure('INTERNAL', 'this host fails'));
        const text = nameText(assignment);
        // A host asks its registration at the moment of acting; while that is in doubt it serves nothing.
        if (!this.#suspended) {
          const other = serving.get(text);
          if (other !== undefined && other !== this)
            assert.fail(`${this.name} takes ${text} which ${other.name} serves\n${this.#cluster.print()}`);
          assert.ok(assignment.revision >= (this.fences.get(text) ?? 0), 'the fence of an assignment went back');
          serving.set(text, this);
        }
        this.fences.set(text, assignment.revision);
        this.taken.push(text);
        done(success(undefined));
      });
    };
  }

  #release(life: number): AssignmentHost['release'] {
    return (assignment, done) => {
      const { random, options, clock, serving } = this.#cluster;
      clock.schedule(random.below(options.delayMsMax + 1), () => {
        if (life !== this.#life) return;
        if (random.chance(options.failures)) return done(failure('INTERNAL', 'this host fails'));
        if (serving.get(nameText(assignment)) === this) serving.delete(nameText(assignment));
        done(success(undefined));
      });
    };
  }
}
