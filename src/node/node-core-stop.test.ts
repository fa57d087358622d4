/** A node that shuts down in order: other nodes take over its containers before its lease would expire. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { module } from '../containers/module.ts';
import { PoolOperations } from '../placement/operations/pool-operations.ts';
import { simulatedAddress, bootSimulatedNode, type SimulatedNode } from '../simulation/cluster/simulated-node.ts';
import { SimulatedWorld } from '../simulation/world/simulated-world.ts';
import type { NodeCore } from './core/node-core-types.ts';

const cell = module('cell', { methods: { set: (ctx, value: number) => ctx.state.set('n', value) } });
const names = ['n1', 'n2', 'n3', 'n4'];
const managers = ['n1', 'n2', 'n3'];
const leaseMs = 5_000;
const containers = 4;

class Cluster {
  readonly world: SimulatedWorld<SimulatedNode>;

  constructor() {
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed: 'stopping', names, failpoints: false, sink: undefined },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: managers.map((name) => simulatedAddress(this.world, name)),
          roles: (name) => (managers.includes(name) ? ['manager', 'worker'] : ['worker']),
          options: { registry: 'embedded', servingLeaseMs: leaseMs },
          modules: [cell],
        }),
    });
    this.world.startAll();
  }

  core(name: string): NodeCore {
    return this.world.program(name)?.core ?? assert.fail(`${name} is down`);
  }

  /** Returns the elapsed time. */
  until(what: string, isSo: () => boolean, msMax = 60_000): number {
    const { timeline } = this.world;
    const beginMs = timeline.nowMs;
    while (!isSo()) {
      if (timeline.nowMs - beginMs > msMax) assert.fail(`not within ${msMax} ms: ${what}`);
      timeline.runUntil(timeline.nowMs + 10);
    }
    return timeline.nowMs - beginMs;
  }

  /** Nodes that would execute calls of that container now. */
  serving(id: number): readonly string[] {
    return names.filter((name) => {
      const { lease, hosting } = this.world.program(name)?.core?.containers ?? {};
      const open = hosting?.containers().some((one) => one.id === id && one.isOpen === true);
      return open === true && lease?.holds() === true;
    });
  }

  settle(): void {
    this.until('nodes that can work', () =>
      names.every((name) => {
        const core = this.world.program(name)?.core;
        return core?.control?.registration.registrationStatusOf(core.identity.id) === 'active';
      }),
    );
    const { control, clock } = this.core('n1');
    assert.ok(control);
    // Of two voters neither can be spared.
    const voters = (): number =>
      control.manager?.group.view().members.filter(({ standing }) => standing === 'voter').length ?? 0;
    this.until('three voters', () => voters() === 3);
    new PoolOperations(control.registry, clock).create({ name: 'p', module: 'cell', containers }, () => {});
    this.until('a pool in service', () => this.isServed());
    const inSync = (): number =>
      names.flatMap((name) => this.core(name).containers?.localReplicas() ?? []).filter((one) => one.inSync).length;
    this.until('copies in sync', () => inSync() === 2 * containers);
  }

  isServed(): boolean {
    return Array.from({ length: containers }, (_, id) => this.serving(id).length).every((count) => count === 1);
  }

  leader(): string {
    const leads = (name: string): boolean => this.core(name).control?.leadership.isLeading() === true;
    return names.find(leads) ?? assert.fail('there is no leader');
  }

  owned(name: string): readonly number[] {
    return Array.from({ length: containers }, (_, id) => id).filter((id) => this.serving(id).includes(name));
  }

  /** Stops like a process that receives SIGTERM. */
  stop(name: string): void {
    let isOver = false;
    this.core(name).stop(() => (isOver = true), 'SIGTERM');
    this.until('it has stopped', () => isOver, 10_000);
    this.world.crash(name, 'kept');
  }
}

describe('a node that stops', () => {
  for (const who of ['a worker', 'the leader'] as const) {
    it(`hands its containers to other nodes at once: ${who}`, () => {
      const cluster = new Cluster();
      cluster.settle();
      const leader = cluster.leader();
      const name = who === 'the leader' ? leader : 'n4';
      const owned = cluster.owned(name);
      assert.ok(owned.length > 0, `${name} owns nothing`);
      cluster.stop(name);
      const tookMs = cluster.until('all is served again', () => cluster.isServed(), 30_000);
      assert.ok(tookMs < leaseMs / 2, `${tookMs} ms`);
    });
  }
});
