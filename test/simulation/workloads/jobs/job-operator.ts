/** Operator of simulated jobs: drains, activates and restarts workers; activates all at the end. */
import type { Random } from '../../../../src/base/random.ts';
import { OperatorClient } from '../operator-client.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

export type JobOperatorOptions = {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly random: Random;
  readonly workers: readonly string[];
};

const actionMsMax = 9_000;
const drainedMsMax = 8_000;
const shutdownMsMax = 6_000;

export class JobOperator {
  readonly #options: JobOperatorOptions;
  readonly #client: OperatorClient;
  #isStopped = false;

  constructor(options: JobOperatorOptions) {
    this.#options = options;
    this.#client = new OperatorClient(options.world, options.random);
  }

  start(): void {
    const { random } = this.#options;
    this.#client.schedule(random.between(500, actionMsMax), () => {
      if (this.#isStopped) return;
      if (random.chance(0.7)) this.#drain(random.pick(this.#options.workers));
      else this.#restart(random.pick(this.#options.workers));
      this.start();
    });
  }

  /** Activates all workers and does nothing else from now on. */
  stop(): void {
    this.#isStopped = true;
    for (const node of this.#options.workers) this.#activate(node);
  }

  #drain(node: string): void {
    if (!this.#client.drain(node)) return;
    this.#client.schedule(this.#options.random.between(1_000, drainedMsMax), () => this.#activate(node));
  }

  #activate(node: string): void {
    this.#client.activate(node, () => this.#isStopped);
  }

  /** As SIGTERM does; after a time limit the process is killed. */
  #restart(node: string): void {
    const { world, random } = this.#options;
    if (!world.isUp(node)) return;
    const boots = world.bootCount(node);
    const isSame = (): boolean => world.isUp(node) && world.bootCount(node) === boots;
    const end = (): void => {
      if (isSame()) world.crash(node, 'kept');
      this.#client.schedule(random.between(200, 3_000), () => {
        if (!world.isUp(node)) world.start(node);
      });
    };
    world.log.add('world', `operator: stops ${node}`);
    world.host(node).process?.run(() => {
      this.#client.core(node)?.stop(() => {
        if (isSame()) world.timeline.after(0, end);
      });
    });
    this.#client.schedule(shutdownMsMax, () => {
      if (isSame()) end();
    });
  }
}
