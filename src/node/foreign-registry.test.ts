/** Workers whose managers lost their disks: a new group of managers knows nothing of the state on the workers' disks. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type Done, isRemusterError, toPromise } from '../base/errors.ts';
import { module } from '../containers/module.ts';
import { poolHandle } from '../containers/pool-handle.ts';
import { PoolOperations } from '../placement/operations/pool-operations.ts';
import { SimulatedCaller } from '../simulation/cluster/simulated-caller.ts';
import { type SimulatedNode, bootSimulatedNode, simulatedAddress } from '../simulation/cluster/simulated-node.ts';
import { TimeDriver } from '../simulation/cluster/time-driver.ts';
import { SimulatedWorld } from '../simulation/world/simulated-world.ts';
import type { NodeCore } from './core/node-core-types.ts';

const counter = module('counter', {
  methods: {
    add: (ctx, by: number) => {
      const n = (ctx.state.get<number>('n') ?? 0) + by;
      ctx.state.set('n', n);
      return n;
    },
  },
});

const workers = ['w1', 'w2'];

/** `m1` is the first manager; `m2` has a disk of its own and starts a group without asking. */
class Scene {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly #driver: TimeDriver;
  readonly #caller: SimulatedCaller;

  constructor(seed: string) {
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed, names: ['m1', 'm2', ...workers], failpoints: false },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: ['m1', 'm2'].map((name) => simulatedAddress(this.world, name)),
          roles: (name) => (workers.includes(name) ? ['worker'] : ['manager']),
          options: { registry: 'embedded', rejoin: 'active', bootstrap: !workers.includes(context.name) },
          modules: [counter],
        }),
    });
    this.#driver = new TimeDriver(this.world, () => turn());
    this.#caller = new SimulatedCaller(this.world, this.#driver);
  }

  async start(...names: string[]): Promise<void> {
    for (const name of names) this.world.start(name);
    await this.advance(30_000);
  }

  advance(durationMs: number): Promise<void> {
    return this.#driver.advance(durationMs);
  }

  async createPool(): Promise<void> {
    const pool = { name: 'visits', module: 'counter', containers: 4, copies: 2, restart: true };
    await this.request('w1', ({ control, clock }, done) =>
      new PoolOperations(control!.registry, clock).create(pool, done),
    );
    await this.advance(10_000);
  }

  request<T>(name: string, run: (core: NodeCore, done: Done<T>) => void): Promise<T> {
    return this.#driver.runDuring(() => toPromise<T>((done) => run(this.core(name), done)));
  }

  /** The results of a write to each container, or the codes of their errors. */
  async addToAll(by: number): Promise<readonly (number | string)[]> {
    const results: (number | string)[] = [];
    const handle = poolHandle(counter, 'visits', (call, options) => this.#caller.call(call, options, 'w1'));
    for (let id = 0; id < 4; id++) {
      try {
        results.push(await handle.with({ timeoutMs: 3_000 }).id(id).add(by));
      } catch (error) {
        results.push(isRemusterError(error) ? error.code : String(error));
      }
    }
    return results;
  }

  core(name: string): NodeCore {
    const core = this.world.program(name)?.core;
    assert.ok(core, `${name} runs`);
    return core;
  }

  mode(name: string): string | undefined {
    const { control, identity } = this.core(name);
    return control?.registration.registrationStatusOf(identity.id);
  }

  eventsOf(name: string, type: string): readonly unknown[] {
    return this.core(name)
      .events.since(0)
      .filter((event) => event.type === type);
  }
}

describe('workers with state of another group of managers', () => {
  test('acknowledge nothing, keep everything, and serve again when their managers return', async () => {
    const scene = new Scene('foreign');
    await scene.start('m1', ...workers);
    await scene.createPool();
    assert.deepEqual(await scene.addToAll(1), [1, 1, 1, 1]);

    scene.world.crash('m1', 'kept');
    await scene.start('m2');
    assert.equal(scene.core('m2').control?.leadership.isLeading(), true, 'a new group');
    assert.ok((await scene.addToAll(10)).every((result) => typeof result === 'string'));
    assert.equal(scene.eventsOf('w1', 'table.refused').length, 1);

    for (const name of workers) scene.world.crash(name, 'kept');
    await scene.start(...workers);
    assert.ok(
      (await scene.addToAll(10)).every((result) => typeof result === 'string'),
      'after a restart, too',
    );
    assert.notEqual(scene.mode('w1'), 'active');

    for (const name of ['m2', ...workers]) scene.world.crash(name, 'kept');
    await scene.start('m1', ...workers);
    assert.deepEqual(await scene.addToAll(1), [2, 2, 2, 2]);
  });

  test('serve again without a restart when their managers return', async () => {
    const scene = new Scene('returning');
    await scene.start('m1', ...workers);
    await scene.createPool();
    assert.deepEqual(await scene.addToAll(1), [1, 1, 1, 1]);
    scene.world.crash('m1', 'kept');
    await scene.start('m2');
    assert.ok((await scene.addToAll(10)).every((result) => typeof result === 'string'));
    scene.world.crash('w2', 'kept');
    await scene.start('w2');
    scene.world.crash('m2', 'kept');
    await scene.start('m1');
    await scene.advance(30_000);
    assert.deepEqual(await scene.addToAll(1), [2, 2, 2, 2]);
    for (const name of workers) assert.equal(scene.mode(name), 'active');
  });

  test('without state they follow the new group', async () => {
    const scene = new Scene('empty');
    await scene.start('m1', ...workers);
    scene.world.crash('m1', 'kept');
    await scene.start('m2');
    for (const name of workers) scene.world.crash(name, 'kept');
    await scene.start(...workers);
    await scene.createPool();
    assert.deepEqual(await scene.addToAll(1), [1, 1, 1, 1]);
  });
});
