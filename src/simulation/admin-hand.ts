/**
 * The hand of whoever operates a simulated cluster of whole nodes: gives orders through a node, drains nodes and lets
 * them work again. What is to be done and when is decided by the operators (jobs/operator.ts, pools/operator.ts).
 */
import type { Done, ErrorCode } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Random } from '../base/random.ts';
import type { NodeCore } from '../node/core.ts';
import { activateNodeState } from '../registration/node-activation.ts';
import type { HostedNode } from './hosted-node.ts';
import type { World } from './world.ts';

export type Order = (core: NodeCore, done: Done<unknown>) => void;
/** `code`: why it was refused; without one nobody has answered. */
export type OrderEnded = (ok: boolean, code?: ErrorCode) => void;

const againMs = 1_000;
const answerMsMax = 12_000;

export class AdminHand {
  readonly #world: World<HostedNode>;
  readonly #random: Random;
  readonly #ids = new Map<string, NodeId>();

  constructor(world: World<HostedNode>, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  /** Through whichever node. */
  order(run: Order, ended: OrderEnded = () => undefined): void {
    this.orderOn(this.#random.pick(this.#world.names), run, ended);
  }

  /** Ends also when that node never answers: it may be killed meanwhile. */
  orderOn(name: string, run: Order, ended: OrderEnded): void {
    let isOpen = true;
    const end: OrderEnded = (ok, code) => {
      if (isOpen) ended(ok, code);
      isOpen = false;
    };
    this.later(answerMsMax, () => end(false));
    this.#world.host(name).life?.enter(() => {
      const core = this.core(name);
      if (core !== undefined) run(core, (outcome) => end(outcome.ok, outcome.ok ? undefined : outcome.error.code));
    });
  }

  /** False: nobody has ever seen that node. */
  drain(node: string): boolean {
    const id = this.idOf(node);
    if (id === undefined) return false;
    this.#world.log.add('world', `operator: ${node} is to be drained`);
    this.order((core, done) => core.control?.operations.drain(id, {}, done));
    return true;
  }

  /** Again and again while `isInsistent` says so: it may be drained for other reasons, and it may be down. */
  activate(node: string, isInsistent: () => boolean): void {
    const again = (): void => this.later(againMs, () => this.activate(node, isInsistent));
    const id = this.idOf(node);
    if (id === undefined) return again();
    this.order(
      (core, done) => {
        if (core.control !== undefined)
          activateNodeState({ registry: core.control.registry, clock: core.clock }, { node: id }, done);
      },
      (ok) => {
        if (!ok && isInsistent()) again();
      },
    );
  }

  idOf(name: string): NodeId | undefined {
    const id = this.core(name)?.identity.id;
    if (id !== undefined) this.#ids.set(name, id);
    return this.#ids.get(name);
  }

  core(name: string): NodeCore | undefined {
    return this.#world.program(name)?.core;
  }

  later(delayMs: number, run: () => void): void {
    this.#world.timeline.after(delayMs, run);
  }
}
