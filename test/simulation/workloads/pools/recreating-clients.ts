/**
 * Clients that create, call, delete and recreate a pool under one name. Each waits for every reply, so a call belongs
 * to one lifecycle.
 */
import type { Random } from '../../../../src/base/random.ts';
import { createPoolAndAwaitTable } from '../../../../src/node/admin/pool-creation.ts';
import type { CreatedPool } from '../../../../src/placement/operations/pool-operations.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { NodeClient } from './node-client.ts';
import { cellModuleName } from './cell-module.ts';
import type { PoolShape } from './cell-calls.ts';
import { SimulatedSession } from './client-session.ts';
import { poolLabel, lifecycleParams } from './pool-label.ts';
import { PoolLifecycle } from './pool-lifecycle.ts';
import type { LifecycleCallsOptions } from './lifecycle-calls.ts';

export type RecreatingClientsOptions = Pick<
  LifecycleCallsOptions,
  'random' | 'observe' | 'nextRequest' | 'acknowledged'
> & {
  readonly world: SimulatedWorld<SimulatedNode>;
  /** Names of the pools, one for each client. */
  readonly names: readonly string[];
};

const containersMax = 4;
const copiesMax = 3;
const pausesMs = [200, 800, 2_500];
const retryMsMax = 200;
/** Two reads of the registry and a transaction, at most 5 s each, and the wait for the address table of the node. */
const creationMsMax = 17_000;

export class RecreatingClients {
  readonly #clients: readonly RecreatingClient[];

  constructor(options: RecreatingClientsOptions) {
    this.#clients = options.names.map((name) => new RecreatingClient(name, options));
  }

  start(): void {
    for (const client of this.#clients) client.start();
  }

  /** A client that has a pool keeps it; a client without one creates a last one. */
  stop(): void {
    for (const client of this.#clients) client.stop();
  }

  /** Pools that exist and are not being deleted, named by their labels. */
  pools(): readonly PoolShape[] {
    return this.#clients.flatMap(({ present }) => present ?? []);
  }

  /** Names without a pool that stays. */
  missing(): readonly string[] {
    return this.#clients.filter(({ present }) => present === undefined).map(({ name }) => name);
  }
}

class RecreatingClient {
  readonly name: string;
  readonly #options: RecreatingClientsOptions;
  readonly #random: Random;
  readonly #session: SimulatedSession;
  readonly #pauseMsMax: number;
  #number = 0;
  #pool: PoolShape = { name: '', containers: 1 };
  #lifecycle: PoolLifecycle | undefined;
  #isLast = false;

  constructor(name: string, options: RecreatingClientsOptions) {
    this.name = name;
    this.#options = options;
    this.#random = options.random.fork(name);
    this.#session = new SimulatedSession(`of-${name}`);
    this.#pauseMsMax = this.#random.pick(pausesMs);
  }

  get present(): PoolShape | undefined {
    return this.#lifecycle?.isAlive === true ? this.#pool : undefined;
  }

  start(): void {
    this.#number += 1;
    this.#pool = {
      name: poolLabel(this.name, lifecycleParams(this.#number)),
      containers: 1 + this.#random.below(containersMax),
    };
    this.#create(1 + this.#random.below(copiesMax));
  }

  stop(): void {
    this.#isLast = true;
    this.#lifecycle?.keep();
  }

  /** Retries: the deletion of the former pool may not be complete. */
  #create(copies: number): void {
    const { nextRequest } = this.#options;
    const node = this.#anyNode();
    const retry = (): void => this.#schedule(retryMsMax, () => this.#create(copies));
    if (node === undefined) return retry();
    const { containers } = this.#pool;
    const params = lifecycleParams(this.#number);
    const request = { name: this.name, module: cellModuleName, containers, copies, params };
    node.request<CreatedPool>(
      {
        ...{ request: nextRequest(), timeoutMs: creationMsMax },
        run: ({ control, containers: parts, clock }, done) =>
          control && createPoolAndAwaitTable({ registry: control.registry, clock, containers: parts }, request, done),
      },
      (outcome) => (outcome?.ok === true ? this.#onCreated(node) : retry()),
    );
  }

  #onCreated(creator: NodeClient): void {
    const { world, observe, nextRequest, acknowledged } = this.#options;
    const random = this.#random.fork(`round/${this.#number}`);
    const [pool, session, pauseMsMax] = [this.#pool, this.#session, this.#pauseMsMax];
    const anyNode = (): NodeClient | undefined => this.#anyNode();
    const own = { pool, creator, session, random, anyNode, world, pauseMsMax };
    this.#lifecycle = new PoolLifecycle({ ...own, observe, nextRequest, acknowledged }, () =>
      this.#schedule(pauseMsMax, () => this.start()),
    );
    if (this.#isLast) this.#lifecycle.keep();
    observe({ kind: 'poolCreated', pool: pool.name, node: creator.name });
    this.#lifecycle.start();
  }

  #anyNode(): NodeClient | undefined {
    const { world, observe } = this.#options;
    return NodeClient.of(this.#random.pick(world.names), world, observe);
  }

  #schedule(delayMsMax: number, run: () => void): void {
    this.#options.world.timeline.after(this.#random.between(0, delayMsMax), run);
  }
}
