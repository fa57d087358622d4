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

const actsMsMax = 9_000;
const drainedMsMax = 8_000;
const shutdownMsMax = 6_000;

export class JobOperator {
  readonly #spec: JobOperatorOptions;
  readonly #client: OperatorClient;
  #isOver = false;

  constructor(spec: JobOperatorOptions) {
    this.#spec = spec;
    this.#client = new OperatorClient(spec.world, spec.random);
  }

  start(): void {
    const { random } = this.#spec;
    this.#client.schedule(random.between(500, actsMsMax), () => {
      if (this.#isOver) return;
      if (random.chance(0.7)) this.#drain(random.pick(this.#spec.workers));
      else this.#restart(random.pick(this.#spec.workers));
      this.start();
    });
  }

  /** Everybody is to work again. */
  stop(): void {
    this.#isOver = true;
    for (const node of this.#spec.workers) this.#activate(node);
  }

  #drain(node: string): void {
    if (!this.#client.drain(node)) return;
    this.#client.schedule(this.#spec.random.between(1_000, drainedMsMax), () => this.#activate(node));
  }

  #activate(node: string): void {
    this.#client.activate(node, () => this.#isOver);
  }

  /** As SIGTERM does. Whatever has not come of it after a while, the process is ended. */
  #restart(node: string): void {
    const { world, random } = this.#spec;
    if (!world.isUp(node)) return;
    const boots = world.bootCount(node);
    const isSame = (): boolean => world.isUp(node) && world.bootCount(node) === boots;
    const end = (): void => {
      if (isSame()) world.crash(node, 'kept');
      this.#client.schedule(random.between(200, 3_000), () => {
        if (!world.isUp(node)) world.start(node);
      });
    };
    world.log.add('world', `operator: ${node} is to stop`);
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
