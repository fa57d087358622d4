/**
 * Assigner and placer together, on nodes that open, copy and hand over: draining and spreading end with every container
 * served, and the world checks at each step that fences rise and no acknowledged write is lost.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type PlacementTestCluster, settledWorld } from '../../../test/support/placement/placement-cluster.ts';
import type { Done, Outcome } from '../../base/errors.ts';
import { type AssignerPorts, AssignerHost } from './assigner-host.ts';
import type { DrainProgress } from '../operations/drain-progress.ts';
import { NodeOperations } from '../operations/node-operations.ts';
import { type RebalanceOptions, rebalanceOptions } from '../balance/rebalance-options.ts';

class Scene {
  readonly world: PlacementTestCluster;
  readonly operations: NodeOperations;
  readonly #rebalance: RebalanceOptions;
  readonly #assigners = new Map<string, AssignerHost>();

  constructor(nodes: number, pool: { containers: number; copies: number }, rebalance: Partial<RebalanceOptions> = {}) {
    this.world = settledWorld(nodes, pool);
    this.#rebalance = rebalanceOptions('balanced', { strategy: 'fair', mode: 'off', ...rebalance });
    this.operations = new NodeOperations(this.world.registry, this.world.clock, this.#rebalance);
    for (const { name } of this.world.nodes) this.assignOn(name);
  }

  assignOn(name: string): void {
    const { registry, leadership } = this.world.node(name);
    const onHalt: AssignerPorts['onHalt'] = (error) => assert.fail(String(error));
    const ports = { registry, leadership, clock: this.world.clock, emit: () => {}, onHalt };
    this.#assigners.set(name, new AssignerHost(ports, { rebalance: this.#rebalance }));
  }

  kill(name: string): void {
    this.#assigners.get(name)?.stop();
    this.world.node(name).kill();
  }

  ask<T>(start: (done: Done<T>) => void): T {
    let ended: Outcome<T> | undefined;
    start((outcome) => {
      ended = outcome;
    });
    this.world.until(() => ended !== undefined, 5_000, 'an answer');
    const outcome = ended as unknown as Outcome<T>;
    assert.ok(outcome.ok);
    return outcome.value;
  }

  drain(name: string, parallelMax = 2): void {
    const { id } = this.world.node(name);
    this.ask<DrainProgress>((done) => this.operations.drain(id, { parallelMax }, done));
  }

  progress(name: string): DrainProgress {
    return this.ask((done) => this.operations.drainProgress(this.world.node(name).id, done));
  }

  untilDrained(name: string): void {
    this.world.until(() => this.progress(name).phase === 'drained', 30_000, `${name} is drained`);
    assert.equal(this.held(name), 0);
  }

  held(name: string): number {
    const { id } = this.world.node(name);
    return [...this.world.records.values()].filter(({ copies }) => copies.includes(id)).length;
  }

  owned(name: string): number {
    return [...this.world.records.keys()].filter((text) => this.world.ownerOf(text) === name).length;
  }
}

describe('draining with a placer', () => {
  test('everything moves away, the copies too, and all is served with as many copies as before', () => {
    const scene = new Scene(4, { containers: 12, copies: 2 });
    assert.ok(scene.owned('b') > 0 && scene.held('b') > scene.owned('b'));
    scene.drain('b');
    scene.untilDrained('b');
    scene.world.settle(2);
  });

  test('goes on when the leader is lost half-way', () => {
    const scene = new Scene(5, { containers: 20, copies: 2 });
    scene.drain('b', 1);
    scene.world.run(50);
    assert.ok(scene.owned('b') > 0, 'half-way');
    scene.kill('a');
    scene.world.lead('c');
    scene.untilDrained('b');
    scene.world.settle(2, 30_000);
  });

  test('goes on when whoever should take over is lost', () => {
    const scene = new Scene(5, { containers: 20, copies: 2 });
    scene.world.lead('b');
    scene.world.run(2_000);
    scene.drain('b', 1);
    scene.world.run(50);
    const to = [...scene.world.records.values()].find(({ move }) => move !== undefined)?.move?.to;
    assert.ok(to !== undefined, 'something moves, and not to the leader');
    scene.kill(scene.world.nameOf(to));
    scene.untilDrained('b');
    scene.world.settle(2, 60_000);
  });

  test('with too few workers for the copies it ends with fewer', () => {
    const scene = new Scene(2, { containers: 6, copies: 2 });
    assert.equal(scene.progress('b').warnings.length, 1);
    scene.drain('b');
    scene.untilDrained('b');
    scene.world.settle(1);
    assert.equal(scene.owned('a'), 6);
  });
});

describe('spreading with a placer', () => {
  test('a worker that joins gets its share of containers, with manual as well', () => {
    const limits = { mode: 'manual', cooldownMs: 0, movesPerHourMax: 100, variationMax: 0.1 } as const;
    const scene = new Scene(3, { containers: 12, copies: 2 }, limits);
    scene.world.add(1);
    scene.assignOn('d');
    scene.world.until(() => scene.owned('d') === 3, 30_000, 'd has its share');
    scene.world.run(5_000);
    scene.world.settle(2);
    assert.deepEqual(
      scene.world.nodes.map(({ name }) => scene.owned(name)),
      [3, 3, 3, 3],
    );
  });
});
