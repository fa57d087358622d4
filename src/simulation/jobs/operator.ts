/**
 * The operator of simulated jobs: drains workers and lets them work again, and now and then stops one in peace and starts
 * it anew. In the end everybody is to work.
 */
import type { Random } from '../../base/random.ts';
import { AdminHand } from '../admin-hand.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { World } from '../world.ts';

export type JobOperatorSpec = {
  readonly world: World<HostedNode>;
  readonly random: Random;
  readonly workers: readonly string[];
};

const actsMsMax = 9_000;
const drainedMsMax = 8_000;
const goodbyeMsMax = 6_000;

export class JobOperator {
  readonly #spec: JobOperatorSpec;
  readonly #hand: AdminHand;
  #isOver = false;

  constructor(spec: JobOperatorSpec) {
    this.#spec = spec;
    this.#hand = new AdminHand(spec.world, spec.random);
  }

  start(): void {
    const { random } = this.#spec;
    this.#hand.later(random.between(500, actsMsMax), () => {
      if (this.#isOver) return;
      if (random.chance(0.7)) this.#drain(random.pick(this.#spec.workers));
      else this.#restart(random.pick(this.#spec.workers));
      this.start();
    });
  }

  /** Everybody is to work again. */
  finish(): void {
    this.#isOver = true;
    for (const node of this.#spec.workers) this.#activate(node);
  }

  #drain(node: string): void {
    if (!this.#hand.drain(node)) return;
    this.#hand.later(this.#spec.random.between(1_000, drainedMsMax), () => this.#activate(node));
  }

  #activate(node: string): void {
    this.#hand.activate(node, () => this.#isOver);
  }

  /** As SIGTERM does. Whatever has not come of it after a while, the process is ended. */
  #restart(node: string): void {
    const { world, random } = this.#spec;
    if (!world.isUp(node)) return;
    const boots = world.boots(node);
    const isSame = (): boolean => world.isUp(node) && world.boots(node) === boots;
    const end = (): void => {
      if (isSame()) world.crash(node, 'kept');
      this.#hand.later(random.between(200, 3_000), () => {
        if (!world.isUp(node)) world.start(node);
      });
    };
    world.log.add('world', `operator: ${node} is to stop`);
    world.host(node).life?.enter(() => {
      this.#hand.core(node)?.stop(() => {
        if (isSame()) world.timeline.after(0, end);
      });
    });
    this.#hand.later(goodbyeMsMax, () => {
      if (isSame()) end();
    });
  }
}
