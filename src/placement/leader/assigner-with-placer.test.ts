/**
 * Assigner and placer together, on nodes that open, replicate and hand over containers: drains and balancing of new
 * nodes end with every container served. The test cluster checks at each step that fences grow and that no acknowledged
 * write is lost.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type PlacementTestCluster, settledCluster } from '../../../test/support/placement/placement-cluster.ts';
import type { Done, Outcome } from '../../base/errors.ts';
import { type AssignerPorts, AssignerHost } from './assigner-host.ts';
import type { DrainProgress } from '../operations/drain-progress.ts';
import { NodeOperations } from '../operations/node-operations.ts';
import { type RebalanceOptions, rebalanceOptions } from '../balance/rebalance-options.ts';

class DrainScenario {
  readonly cluster: PlacementTestCluster;
  readonly operations: NodeOperations;
  readonly #rebalance: RebalanceOptions;
  readonly #assigners = new Map<string, AssignerHost>();

  constructor(nodes: number, pool: { containers: number; copies: number }, rebalance: Partial<RebalanceOptions> = {}) {
    this.cluster = settledCluster(nodes, pool);
    this.#rebalance = rebalanceOptions('balanced', { strategy: 'fair', mode: 'off', ...rebalance });
    this.operations = new NodeOperations(this.cluster.registry, this.cluster.clock, this.#rebalance);
    for (const { name } of this.cluster.nodes) this.startAssigner(name);
  }

  startAssigner(name: string): void {
    const { registry, leadership } = this.cluster.node(name);
    const onHalt: AssignerPorts['onHalt'] = (error) => assert.fail(String(error));
    const ports = { registry, leadership, clock: this.cluster.clock, emit: () => {}, onHalt };
    this.#assigners.set(name, new AssignerHost(ports, { rebalance: this.#rebalance }));
  }

  kill(name: string): void {
    this.#assigners.get(name)?.stop();
    this.cluster.node(name).kill();
  }

  await<T>(start: (done: Done<T>) => void): T {
    let ended: Outcome<T> | undefined;
    start((outcome) => {
      ended = outcome;
    });
    this.cluster.until(() => ended !== undefined, 5_000, 'a reply');
    const outcome = ended as unknown as Outcome<T>;
    assert.ok(outcome.ok);
    return outcome.value;
  }

  drain(name: string, parallelMax = 2): void {
    const { id } = this.cluster.node(name);
    this.await<DrainProgress>((done) => this.operations.drain(id, { parallelMax }, done));
  }

  progress(name: string): DrainProgress {
    return this.await((done) => this.operations.drainProgress(this.cluster.node(name).id, done));
  }

  untilDrained(name: string): void {
    this.cluster.until(() => this.progress(name).phase === 'drained', 30_000, `${name} is drained`);
    assert.equal(this.held(name), 0);
  }

  held(name: string): number {
    const { id } = this.cluster.node(name);
    return [...this.cluster.records.values()].filter(({ copies }) => copies.includes(id)).length;
  }

  owned(name: string): number {
    return [...this.cluster.records.keys()].filter((fullName) => this.cluster.ownerOf(fullName) === name).length;
  }
}

describe('a drain with a placer', () => {
  test('moves containers and replicas away and leaves every container served with as many replicas as before', () => {
    const scenario = new DrainScenario(4, { containers: 12, copies: 2 });
    assert.ok(scenario.owned('b') > 0 && scenario.held('b') > scenario.owned('b'));
    scenario.drain('b');
    scenario.untilDrained('b');
    scenario.cluster.settle(2);
  });

  test('continues under the next leader when the leader is lost half-way', () => {
    const scenario = new DrainScenario(5, { containers: 20, copies: 2 });
    scenario.drain('b', 1);
    scenario.cluster.run(50);
    assert.ok(scenario.owned('b') > 0, 'half-way');
    scenario.kill('a');
    scenario.cluster.lead('c');
    scenario.untilDrained('b');
    scenario.cluster.settle(2, 30_000);
  });

  test('continues when the destination of a move is lost', () => {
    const scenario = new DrainScenario(5, { containers: 20, copies: 2 });
    scenario.cluster.lead('b');
    scenario.cluster.run(2_000);
    scenario.drain('b', 1);
    scenario.cluster.run(50);
    const to = [...scenario.cluster.records.values()].find(({ move }) => move !== undefined)?.move?.to;
    assert.ok(to !== undefined, 'a container moves to a node other than the leader');
    scenario.kill(scenario.cluster.nameOf(to));
    scenario.untilDrained('b');
    scenario.cluster.settle(2, 60_000);
  });

  test('ends with fewer replicas when too few workers are left', () => {
    const scenario = new DrainScenario(2, { containers: 6, copies: 2 });
    assert.equal(scenario.progress('b').warnings.length, 1);
    scenario.drain('b');
    scenario.untilDrained('b');
    scenario.cluster.settle(1);
    assert.equal(scenario.owned('a'), 6);
  });
});

describe('balancing of a new node with a placer', () => {
  test('gives a worker that joins its share of containers, also in the mode manual', () => {
    const limits = { mode: 'manual', cooldownMs: 0, movesPerHourMax: 100, variationMax: 0.1 } as const;
    const scenario = new DrainScenario(3, { containers: 12, copies: 2 }, limits);
    scenario.cluster.add(1);
    scenario.startAssigner('d');
    scenario.cluster.until(() => scenario.owned('d') === 3, 30_000, 'd has its share');
    scenario.cluster.run(5_000);
    scenario.cluster.settle(2);
    assert.deepEqual(
      scenario.cluster.nodes.map(({ name }) => scenario.owned(name)),
      [3, 3, 3, 3],
    );
  });
});
