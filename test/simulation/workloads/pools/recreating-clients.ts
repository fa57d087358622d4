/**
 * Clients that create, call, delete and recreate a pool of one name. Each waits for every reply, so a call belongs to
 * one lifecycle.
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
  /** Of the pools, one for each client. */
  readonly names: readonly string[];
};

const containersMax = 4;
const copiesMax = 3;
const pausesMs = [200, 800, 2_500];
const againMsMax = 200;
/** Two looks into the registry and a change of it, each of them 5 s at most, and the wait for this node to know it. */
const creationMsMax = 17_000;

export class RecreatingClients {
  readonly #clients: readonly RoundsClient[];

  constructor(spec: RecreatingClientsOptions) {
    this.#clients = spec.names.map((name) => new RoundsClient(name, spec));
  }

  start(): void {
    for (const client of this.#clients) client.start();
  }

  /** Whoever has a pool keeps it, whoever has none makes one more. */
  finish(): void {
    for (const client of this.#clients) client.finish();
  }

  /** Those that are there, and are to stay for now; they are named by their labels. */
  pools(): readonly PoolShape[] {
    return this.#clients.flatMap(({ present }) => present ?? []);
  }

  /** Names under which there is no pool, or none that is to stay. */
  missing(): readonly string[] {
    return this.#clients.filter(({ present }) => present === undefined).map(({ name }) => name);
  }
}

class RoundsClient {
  readonly name: string;
  readonly #spec: RecreatingClientsOptions;
  readonly #random: Random;
  readonly #session: SimulatedSession;
  readonly #pauseMsMax: number;
  #number = 0;
  #pool: PoolShape = { name: '', containers: 1 };
  #round: PoolLifecycle | undefined;
  #isLast = false;

  constructor(name: string, spec: RecreatingClientsOptions) {
    this.name = name;
    this.#spec = spec;
    this.#random = spec.random.fork(name);
    this.#session = new SimulatedSession(`of-${name}`);
    this.#pauseMsMax = this.#random.pick(pausesMs);
  }

  get present(): PoolShape | undefined {
    return this.#round?.isAlive === true ? this.#pool : undefined;
  }

  start(): void {
    this.#number += 1;
    this.#pool = {
      name: poolLabel(this.name, lifecycleParams(this.#number)),
      containers: 1 + this.#random.below(containersMax),
    };
    this.#create(1 + this.#random.below(copiesMax));
  }

  finish(): void {
    this.#isLast = true;
    this.#round?.keep();
  }

  /** Again and again: the former one may still be on its way out. */
  #create(copies: number): void {
    const { nextRequest } = this.#spec;
    const node = this.#anybody();
    const again = (): void => this.#later(againMsMax, () => this.#create(copies));
    if (node === undefined) return again();
    const { containers } = this.#pool;
    const params = lifecycleParams(this.#number);
    const request = { name: this.name, module: cellModuleName, containers, copies, params };
    node.request<CreatedPool>(
      {
        ...{ request: nextRequest(), timeoutMs: creationMsMax },
        ask: ({ control, containers: parts, clock }, done) =>
          control && createPoolAndAwaitTable({ registry: control.registry, clock, containers: parts }, request, done),
      },
      (outcome) => (outcome?.ok === true ? this.#created(node) : again()),
    );
  }

  #created(creator: NodeClient): void {
    const { world, observe, nextRequest, acknowledged } = this.#spec;
    const random = this.#random.fork(`round/${this.#number}`);
    const [pool, session, pauseMsMax] = [this.#pool, this.#session, this.#pauseMsMax];
    const anyNode = (): NodeClient | undefined => this.#anybody();
    const own = { pool, creator, session, random, anyNode, world, pauseMsMax };
    this.#round = new PoolLifecycle({ ...own, observe, nextRequest, acknowledged }, () =>
      this.#later(pauseMsMax, () => this.start()),
    );
    if (this.#isLast) this.#round.keep();
    observe({ kind: 'poolCreated', pool: pool.name, node: creator.name });
    this.#round.begin();
  }

  #anybody(): NodeClient | undefined {
    const { world, observe } = this.#spec;
    return NodeClient.of(this.#random.pick(world.names), world, observe);
  }

  #later(delayMsMax: number, run: () => void): void {
    this.#spec.world.timeline.after(this.#random.between(0, delayMsMax), run);
  }
}
