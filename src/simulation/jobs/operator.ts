/**
 * The operator of simulated jobs: drains workers and lets them work again, and now and then stops one in peace and starts
 * it anew. In the end everybody is to work.
 */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { NodeCore } from '../../node/core.ts';
import { activateNode } from '../../registry/registration/activate.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { World } from '../world.ts';

export type JobOperatorSpec = {
  readonly world: World<HostedNode>;
  readonly random: Random;
  readonly workers: readonly string[];
};

const againMs = 1_000;
const answerMsMax = 12_000;
const actsMsMax = 9_000;
const drainedMsMax = 8_000;
const goodbyeMsMax = 6_000;

export class JobOperator {
  readonly #spec: JobOperatorSpec;
  readonly #ids = new Map<string, NodeId>();
  #isOver = false;

  constructor(spec: JobOperatorSpec) {
    this.#spec = spec;
  }

  start(): void {
    const { random } = this.#spec;
    this.#later(random.between(500, actsMsMax), () => {
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
    const { world, random } = this.#spec;
    const id = this.#idOf(node);
    if (id === undefined) return;
    world.log.add('world', `operator: ${node} is to be drained`);
    this.#through((core, done) => core.control?.operations.drain(id, {}, done));
    this.#later(random.between(1_000, drainedMsMax), () => this.#activate(node));
  }

  /** As SIGTERM does. Whatever has not come of it after a while, the process is ended. */
  #restart(node: string): void {
    const { world, random } = this.#spec;
    if (!world.isUp(node)) return;
    const boots = world.boots(node);
    const isSame = (): boolean => world.isUp(node) && world.boots(node) === boots;
    const end = (): void => {
      if (isSame()) world.crash(node, 'kept');
      this.#later(random.between(200, 3_000), () => {
        if (!world.isUp(node)) world.start(node);
      });
    };
    world.log.add('world', `operator: ${node} is to stop`);
    world.host(node).life?.enter(() => {
      this.#core(node)?.stop(() => {
        if (isSame()) world.timeline.after(0, end);
      });
    });
    this.#later(goodbyeMsMax, () => {
      if (isSame()) end();
    });
  }

  /** Again and again: it may be drained for other reasons, and it may be down. */
  #activate(node: string): void {
    const id = this.#idOf(node);
    if (id === undefined) return this.#later(againMs, () => this.#activate(node));
    this.#through(
      (core, done) => {
        if (core.control !== undefined)
          activateNode({ registry: core.control.registry, clock: core.clock }, { node: id }, done);
      },
      (ok) => {
        if (!ok && this.#isOver) this.#later(againMs, () => this.#activate(node));
      },
    );
  }

  /** Ends also when that node never answers: it may be killed meanwhile. */
  #through(run: (core: NodeCore, done: Done<unknown>) => void, ended: (ok: boolean) => void = () => undefined): void {
    const { world, random } = this.#spec;
    const name = random.pick(world.names);
    let isOpen = true;
    const end = (ok: boolean): void => {
      if (isOpen) ended(ok);
      isOpen = false;
    };
    this.#later(answerMsMax, () => end(false));
    world.host(name).life?.enter(() => {
      const core = this.#core(name);
      if (core !== undefined) run(core, ({ ok }) => end(ok));
    });
  }

  #idOf(name: string): NodeId | undefined {
    const id = this.#core(name)?.identity.id;
    if (id !== undefined) this.#ids.set(name, id);
    return this.#ids.get(name);
  }

  #core(name: string): NodeCore | undefined {
    return this.#spec.world.program(name)?.core;
  }

  #later(delayMs: number, run: () => void): void {
    this.#spec.world.timeline.after(delayMs, run);
  }
}
