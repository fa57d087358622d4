/** The Remuster side: a manager, three workers, pools of the bench module. */
import { join } from 'node:path';

import { type ClusterSession, connect } from '../../src/client/index.ts';
import { BenchAgents, agentReadyMs } from '../support/agents.ts';
import type { LoadResult } from './load.ts';
import { benchModule, type LoadPlan } from './bench-module.ts';

export const benchWorkers = ['w0', 'w1', 'w2'] as const;
export type WorkerName = (typeof benchWorkers)[number];

type PoolOptions = { readonly containers: number; readonly copies: number; readonly durability: 'memory' | 'copies' };
type ContainerRow = { readonly id: number; readonly owner: string | null; readonly phase: string };

export class ContainerBenchCluster {
  readonly #agents: BenchAgents;
  #session: ClusterSession | undefined;
  /** The pool whose containers generate the load, at least one on each worker. */
  #generatorPool = '';

  constructor(folder: string) {
    const modules = join(import.meta.dirname, 'bench-module.ts');
    this.#agents = new BenchAgents('containers-bench', folder, ['--modules', modules]);
  }

  /** The caller must call `stop`, also after a failure. */
  async start(): Promise<void> {
    await this.#agents.start('m0', 'manager');
    await Promise.all(benchWorkers.map((name) => this.#agents.start(name, 'worker', 'm0')));
    await this.#agents.until('all nodes are active', async () => {
      const { items } = (await this.#agents.get('m0', '/v1/members')) as { items: readonly { registration: string }[] };
      return items.filter(({ registration }) => registration === 'active').length === benchWorkers.length + 1;
    });
    await this.#createGeneratorPool();
    this.#session = await connect(this.#agents.connectOptions(...benchWorkers));
  }

  async ownedBy(pool: string, worker: WorkerName): Promise<readonly number[]> {
    return (await this.#containers(pool)).filter(({ owner }) => owner === worker).map(({ id }) => id);
  }

  async runLoad(worker: WorkerName, plan: LoadPlan): Promise<LoadResult> {
    const pool = this.#session
      ?.pool(benchModule, this.#generatorPool)
      .with({ timeoutMs: plan.durationMs + agentReadyMs });
    if (pool === undefined) throw new Error('the cluster was not started');
    return await pool.node(worker).runLoad(plan);
  }

  pid(name: 'm0' | WorkerName): number {
    return this.#agents.pid(name);
  }

  async createPool(name: string, options: PoolOptions): Promise<void> {
    const error = await this.#agents.post('m0', '/v1/pools', { name, module: benchModule.name, ...options });
    if (error !== undefined) throw new Error(`the pool ${name} was not created: ${error}`);
    await this.#agents.until(`the containers of ${name} serve`, async () => await this.#serves(name));
  }

  async stop(): Promise<void> {
    await this.#session?.close();
    await this.#agents.stop();
  }

  /** Creates pools until one has containers on all workers: a worker without a serving lease gets none. */
  async #createGeneratorPool(): Promise<void> {
    await this.#agents.until('all workers have containers', async () => {
      this.#generatorPool = `generators-${performance.now().toFixed(0)}`;
      await this.createPool(this.#generatorPool, {
        containers: 2 * benchWorkers.length,
        copies: 1,
        durability: 'memory',
      });
      const rows = await this.#containers(this.#generatorPool);
      return benchWorkers.every((name) => rows.some(({ owner }) => owner === name));
    });
  }

  async #containers(pool: string): Promise<readonly ContainerRow[]> {
    const view = await this.#agents.get('m0', `/v1/pools/${pool}`);
    return view['containers'] as readonly ContainerRow[];
  }

  async #serves(pool: string): Promise<boolean> {
    return (await this.#containers(pool)).every(({ phase }) => phase === 'serving');
  }
}
