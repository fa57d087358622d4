/** A whole cluster with pools in one process, for tests of users' modules. The same seed gives the same run. */
import { type Done, RemusterError, toPromise } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Methods, ModuleDefinition, PoolHandle } from '../../containers/module.ts';
import { poolHandle } from '../../containers/pool-handle.ts';
import type { NodeCore } from '../../node/core/node-core-types.ts';
import { PoolOperations } from '../../placement/operations/pool-operations.ts';
import type { PoolRequest } from '../../placement/operations/pool-spec.ts';
import { simulatedAddress, bootSimulatedNode, type SimulatedNode } from './simulated-node.ts';
import { RegistryOracle } from './registry-oracle.ts';
import { type ClusterControls, createClusterControls } from './cluster-controls.ts';
import { SimulatedCaller } from './simulated-caller.ts';
import { type SettlePromises, TimeDriver } from './time-driver.ts';
import { SimulatedWorld } from '../world/simulated-world.ts';

export type SimulateOptions = {
  /** Number of nodes, named n1, n2 and so on. Up to three are managers, all are workers. */
  readonly nodes?: number;
  /** Modules of the pools. */
  readonly modules: readonly ModuleDefinition[];
  readonly seed?: string | number;
  /** Gets each line of the event log. */
  readonly onLine?: (line: string) => void;
};

export type PoolOptions = Omit<PoolRequest, 'name' | 'module' | 'containers' | 'force'> & {
  readonly containers?: number;
};

export type SimulatedPools = ClusterControls & {
  /** Resolves when each container serves and all its replicas are in sync, so that it survives the kill of any node. */
  readonly createPool: (name: string, definition: ModuleDefinition, options?: PoolOptions) => Promise<void>;
  readonly deletePool: (name: string) => Promise<void>;
  /** A handle as an application has it; calls go through the named node, or through any node that runs. */
  readonly pool: <M extends Methods>(definition: ModuleDefinition<M>, name: string, through?: string) => PoolHandle<M>;
  /** Resolves when the container serves on that node. */
  readonly move: (pool: string, container: number, to: string) => Promise<void>;
  /** The node that owns the container now. */
  readonly ownerOf: (pool: string, container: number) => string | undefined;
};

const managersMax = 3;
const containersDefault = 8;
const readyMsMax = 60_000;
const pollMs = 20;

export async function simulateWith(options: SimulateOptions, settle: SettlePromises): Promise<SimulatedPools> {
  const pools = new SimulatedPoolCluster(options, settle);
  await pools.ready();
  return pools.handle();
}

class SimulatedPoolCluster {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #driver: TimeDriver;
  readonly #caller: SimulatedCaller;
  readonly #names: readonly string[];
  readonly #ids = new Map<string, NodeId>();
  readonly #oracle = new RegistryOracle();

  constructor({ nodes = 3, modules, seed = 1, onLine }: SimulateOptions, settle: SettlePromises) {
    const names = Array.from({ length: nodes }, (_, index) => `n${index + 1}`);
    const managers = names.slice(0, managersMax);
    this.#names = names;
    this.#world = new SimulatedWorld<SimulatedNode>({
      ...{ seed: `testing/${seed}`, names, failpoints: false, sink: onLine },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: managers.map((name) => simulatedAddress(this.#world, name)),
          roles: (name) => (managers.includes(name) ? ['manager', 'worker'] : ['worker']),
          options: { registry: 'embedded' },
          modules,
          booted: (node) => this.#onBooted(context.name, node),
        }),
    });
    this.#driver = new TimeDriver(this.#world, settle);
    this.#caller = new SimulatedCaller(this.#world, this.#driver);
    this.#world.startAll();
  }

  /** Resolves when every node has joined and is active. */
  ready(): Promise<void> {
    return this.#until('all nodes to become active', () =>
      this.#names.every((name) => {
        const core = this.#core(name);
        return core?.control?.registration.registrationStatusOf(core.identity.id) === 'active';
      }),
    );
  }

  handle(): SimulatedPools {
    return {
      ...createClusterControls(this.#world, (durationMs) => this.#driver.advance(durationMs)),
      createPool: (name, definition, options) => this.#create(name, definition, options),
      deletePool: (name) => this.#delete(name),
      pool: (definition, name, through) =>
        poolHandle(definition, name, (call, options) => this.#caller.call(call, options, through)),
      move: (pool, container, to) => this.#move(pool, container, to),
      ownerOf: (pool, container) => this.#nameOf(this.#oracle.record({ pool, container })?.owner?.node),
    };
  }

  async #create(name: string, { name: module }: ModuleDefinition, options: PoolOptions = {}): Promise<void> {
    const { containers = containersDefault, ...rest } = options;
    await this.#request((core, done) => operationsOf(core).create({ name, module, containers, ...rest }, done));
    const isReady = (container: number): boolean => {
      const record = this.#oracle.record({ pool: name, container });
      return record?.phase === 'serving' && record.inSync.length === record.copies.length;
    };
    const all = Array.from({ length: containers }, (_, container) => container);
    await this.#until(`all containers of ${name} to serve with replicas in sync`, () => all.every(isReady));
  }

  async #delete(name: string): Promise<void> {
    await this.#request((core, done) => operationsOf(core).delete(name, done));
    await this.#until(`the deletion of pool ${name}`, () => this.#oracle.majorOf(name) === undefined);
  }

  async #move(pool: string, container: number, to: string): Promise<void> {
    const id = this.#ids.get(to);
    if (id === undefined)
      throw new RemusterError('BAD_ARGUMENT', `there is no node ${to}: the nodes are ${this.#names.join(', ')}`);
    await this.#until('a leader', () => this.#leader() !== undefined);
    const leader = this.#leader() as NodeCore;
    await this.#request((_, done) => leader.control?.placer?.requestMove(pool, container, id, 'admin', done));
    await this.#until(`${pool}/${container} on ${to}`, () => {
      const record = this.#oracle.record({ pool, container });
      return record?.owner?.node === id && record.phase === 'serving';
    });
  }

  /** Through any node that runs. */
  #request<T>(run: (core: NodeCore, done: Done<T>) => void): Promise<T> {
    const core = this.#names.map((name) => this.#core(name)).find((one) => one?.control !== undefined);
    if (core === undefined) throw new RemusterError('UNREACHABLE', 'no node runs: restart one first');
    return this.#driver.runDuring(() => toPromise<T>((done) => run(core, done)));
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    const { timeline } = this.#world;
    const endMs = timeline.nowMs + readyMsMax;
    while (!holds()) {
      if (timeline.nowMs >= endMs)
        throw new RemusterError('DEADLINE', `waited ${readyMsMax} ms of virtual time for ${what}`);
      await this.#driver.advance(pollMs);
    }
  }

  #onBooted(name: string, { core }: SimulatedNode): void {
    if (core === undefined) return;
    this.#ids.set(name, core.identity.id);
    if (core.control?.manager !== undefined) this.#oracle.watch(core.control.manager.replica);
  }

  #nameOf(id: NodeId | undefined): string | undefined {
    return this.#names.find((name) => id !== undefined && this.#ids.get(name) === id);
  }

  #leader(): NodeCore | undefined {
    const cores = this.#names.map((name) => this.#core(name));
    return cores.find((core) => core?.control?.leadership.isLeading() === true);
  }

  #core(name: string): NodeCore | undefined {
    return this.#world.program(name)?.core;
  }
}

function operationsOf({ control, clock }: NodeCore): PoolOperations {
  if (control === undefined) throw new RemusterError('INTERNAL', 'a simulated node has no control plane');
  return new PoolOperations(control.registry, clock);
}
