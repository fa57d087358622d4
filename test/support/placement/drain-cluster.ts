/** Test cluster for drains and balance: registered nodes on virtual time, one of which leads. Creates no containers. */
import assert from 'node:assert/strict';

import type { Done, Outcome } from '../../../src/base/errors.ts';
import { type Fence, fenceOf } from '../../../src/base/fence.ts';
import { type NodeId, nodeIdFrom } from '../../../src/base/ids.ts';
import type { Clock } from '../../../src/base/ports.ts';
import type { LeaseId, RegistryOp } from '../../../src/base/registry.ts';
import type { BalanceReport } from '../../../src/placement/balance/balance-report.ts';
import { type RebalanceOptions, rebalanceOptions } from '../../../src/placement/balance/rebalance-options.ts';
import { AssignerHost } from '../../../src/placement/leader/assigner-host.ts';
import { NodeOperations } from '../../../src/placement/operations/node-operations.ts';
import type { NodeMode, StateReason } from '../../../src/registration/node-modes.ts';
import * as records from '../../../src/registration/registration-records.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../../src/registry/cluster-keys.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { FakeLeadership } from '../../fakes/fake-leadership.ts';
import { type FakeRegistry, fakeRegistry } from '../../fakes/fake-registry.ts';

const ttlMs = 3_000;
const renewMs = 500;

export class DrainTestCluster {
  readonly timeline = new Timeline();
  readonly clock: Clock;
  readonly registry: FakeRegistry;
  readonly rebalance: RebalanceOptions;
  readonly operations: NodeOperations;
  readonly nodes: DrainTestNode[] = [];
  /** Declared dead by membership, and still registered. */
  readonly gone = new Set<NodeId>();
  revisionsSeen = 0;
  #term = 0;

  constructor(rebalance: Partial<RebalanceOptions> = {}) {
    const { timeline } = this;
    this.clock = {
      nowMs: () => timeline.nowMs,
      wallMs: () => timeline.nowMs,
      schedule: (delayMs, run) => timeline.after(delayMs, run),
    };
    this.rebalance = rebalanceOptions('balanced', { strategy: 'fair', ...rebalance });
    this.registry = fakeRegistry({ clock: this.clock });
    this.operations = new NodeOperations(this.registry, this.clock, this.rebalance, (id) => this.gone.has(id));
    this.registry.watch(
      keyRanges.cluster,
      { revision: 1 },
      {
        changed: (changes) => {
          this.revisionsSeen += 1;
          for (const change of changes)
            if (change.kind === 'put') this.#recordMode(change.entry.key, change.entry.value);
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
      const node = new DrainTestNode(this, String.fromCharCode(96 + number), id);
      this.nodes.push(node);
      node.start();
    }
    this.run(50);
  }

  node(name: string): DrainTestNode {
    const found = this.nodes.find((node) => node.name === name);
    assert.ok(found, `there is no node ${name}`);
    return found;
  }

  /** Makes that node leader; `before` says whether the former leader knows it. */
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

  /** Runs until the condition holds; fails after `withinMs`. */
  until(holds: () => boolean, withinMs: number, what: string): number {
    const beginMs = this.timeline.nowMs;
    while (!holds()) {
      if (this.timeline.nowMs - beginMs > withinMs) assert.fail(`not within ${withinMs} ms: ${what}`);
      this.run(10);
    }
    return this.timeline.nowMs - beginMs;
  }

  /** Starts a call and runs until it has ended. */
  await<T>(start: (done: Done<T>) => void): Outcome<T> {
    let ended: Outcome<T> | undefined;
    start((outcome) => {
      ended = outcome;
    });
    this.until(() => ended !== undefined, 10_000, 'a reply');
    return ended as Outcome<T>;
  }

  balance(): BalanceReport {
    const outcome = this.await<BalanceReport>((done) => this.operations.balance(done));
    assert.ok(outcome.ok);
    return outcome.value;
  }

  #recordMode(text: string, value: Uint8Array): void {
    const key = parseClusterKey(text);
    if (key?.kind !== 'state') return;
    const node = this.nodes.find(({ id }) => id === key.node);
    const mode = records.readNodeState(value)?.mode;
    if (node !== undefined && mode !== undefined) node.mode = mode;
  }
}

/** A cluster of active nodes; a leads. */
export function startedCluster(nodes: number, rebalance: Partial<RebalanceOptions> = {}): DrainTestCluster {
  const cluster = new DrainTestCluster(rebalance);
  cluster.add(nodes);
  cluster.lead('a');
  cluster.run(50);
  return cluster;
}

export class DrainTestNode {
  readonly name: string;
  readonly id: NodeId;
  readonly leadership: FakeLeadership;
  readonly registry: FakeRegistry;
  readonly assigner: AssignerHost;
  mode: NodeMode = 'joining';
  readonly #cluster: DrainTestCluster;
  #isUp = true;

  constructor(cluster: DrainTestCluster, name: string, id: NodeId) {
    this.#cluster = cluster;
    this.name = name;
    this.id = id;
    this.leadership = new FakeLeadership(id);
    this.registry = cluster.registry.connect();
    const { clock, rebalance } = cluster;
    const { registry, leadership } = this;
    const onHalt = (error: unknown): void => assert.fail(String(error));
    const isGone = (node: NodeId): boolean => cluster.gone.has(node);
    this.assigner = new AssignerHost({ registry, leadership, clock, emit: () => {}, onHalt, isGone }, { rebalance });
  }

  start(): void {
    this.registry.grant(ttlMs, {}, (granted) => {
      assert.ok(granted.ok);
      const { lease } = granted.value;
      this.#write('active', 'boot', lease);
      this.#renew(lease);
    });
  }

  /** Ends the process at once; its registration expires later. */
  kill(): void {
    this.#isUp = false;
    this.assigner.stop();
    this.leadership.lose();
  }

  /** Writes the state as an operator or the node itself does. */
  setMode(mode: NodeMode, reason: StateReason): void {
    this.#write(mode, reason, undefined);
  }

  #renew(lease: LeaseId): void {
    this.#cluster.clock.schedule(renewMs, () => {
      if (this.#isUp) this.registry.keepAlive(lease, { timeoutMs: renewMs }, () => this.#renew(lease));
    });
  }

  #write(mode: NodeMode, reason: StateReason, lease: LeaseId | undefined): void {
    const own = { generation: 1, epoch: 1 };
    const state = records.encodeRegistrationRecord({ ...own, mode, reason, lost: false, sinceWallMs: 0, note: '' });
    const address = { ...own, name: this.name, host: 'h', port: 1, roles: ['worker'], dc: 'd' } as const;
    const then: RegistryOp[] = [{ kind: 'put', key: clusterKey({ kind: 'state', node: this.id }), value: state }];
    const key = clusterKey({ kind: 'registration', node: this.id });
    if (lease !== undefined) then.push({ kind: 'put', key, value: records.encodeRegistrationRecord(address), lease });
    this.registry.transact({ compare: [], then, otherwise: [] }, { timeoutMs: 1_000 }, () => {});
  }
}
