/** Our side: a manager, three workers, pools of the bench module. */
import { join } from 'node:path';

import { type ClusterSession, connect } from '../../src/client/index.ts';
import { BenchAgents, agentReadyMs } from '../support/agents.ts';
import type { LoadResult } from './load.ts';
import { benchModule, type LoadPlan } from './bench-module.ts';

export const benchWorkers = ['w0', 'w1', 'w2'] as const;
export type WorkerName = (typeof benchWorkers)[number];

type PoolWish = { readonly containers: number; readonly copies: number; readonly durability: 'memory' | 'copies' };
type ContainerRow = { readonly id: number; readonly owner: string | null; readonly phase: string };

export class ContainerBenchCluster {
  readonly #agents: BenchAgents;
  #session: ClusterSession | undefined;
  #drivers = '';

  constructor(folder: string) {
    const modules = join(import.meta.dirname, 'bench-module.ts');
    this.#agents = new BenchAgents('containers-bench', folder, ['--modules', modules]);
  }

  /** `stop` must be called in the end, whether this ended well or not. */
  async start(): Promise<void> {
    await this.#agents.start('m0', 'manager');
    await Promise.all(benchWorkers.map((name) => this.#agents.start(name, 'worker', 'm0')));
    await this.#agents.until('all are active members', async () => {
      const { items } = (await this.#agents.get('m0', '/v1/members')) as { items: readonly { registration: string }[] };
      return items.filter(({ registration }) => registration === 'active').length === benchWorkers.length + 1;
    });
    await this.#createDrivers();
    this.#session = await connect(this.#agents.connectOptions(...benchWorkers));
  }

  async ownedBy(pool: string, worker: WorkerName): Promise<readonly number[]> {
    return (await this.#containers(pool)).filter(({ owner }) => owner === worker).map(({ id }) => id);
  }

  async runLoad(worker: WorkerName, plan: LoadPlan): Promise<LoadResult> {
    const pool = this.#session?.pool(benchModule, this.#drivers).with({ timeoutMs: plan.durationMs + agentReadyMs });
    if (pool === undefined) throw new Error('the cluster was not started');
    return await pool.node(worker).drive(plan);
  }

  pid(name: 'm0' | WorkerName): number {
    return this.#agents.pid(name);
  }

  async createPool(name: string, wish: PoolWish): Promise<void> {
    const fault = await this.#agents.post('m0', '/v1/pools', { name, module: benchModule.name, ...wish });
    if (fault !== undefined) throw new Error(`the pool ${name} was not created: ${fault}`);
    await this.#agents.until(`the containers of ${name} serve`, async () => await this.#serves(name));
  }

  async stop(): Promise<void> {
    await this.#session?.close();
    await this.#agents.stop();
  }

  /** A worker that may serve only since a moment ago gets nothing: then the next pool is better. */
  async #createDrivers(): Promise<void> {
    await this.#agents.until('all workers may serve', async () => {
      this.#drivers = `drivers-${performance.now().toFixed(0)}`;
      await this.createPool(this.#drivers, { containers: 2 * benchWorkers.length, copies: 1, durability: 'memory' });
      const rows = await this.#containers(this.#drivers);
      return benchWorkers.every((name) => rows.some(({ owner }) => owner === name));
    });
  }

  async #containers(pool: string): Promise<readonly ContainerRow[]> {
    const shown = await this.#agents.get('m0', `/v1/pools/${pool}`);
    return shown['containers'] as readonly ContainerRow[];
  }

  async #serves(pool: string): Promise<boolean> {
    return (await this.#containers(pool)).every(({ phase }) => phase === 'serving');
  }
}
