/**
 * Performs admin actions on a simulated cluster through some node, with retries. Never decides what to do: the
 * operators of the workloads do.
 */
import type { Done, ErrorCode } from '../../../src/base/errors.ts';
import type { NodeId } from '../../../src/base/ids.ts';
import type { Random } from '../../../src/base/random.ts';
import type { NodeCore } from '../../../src/node/core/node-core-types.ts';
import { activateNodeState } from '../../../src/registration/node-activation.ts';
import type { SimulatedNode } from '../../../src/simulation/cluster/simulated-node.ts';
import type { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';

export type AdminAction = (core: NodeCore, done: Done<unknown>) => void;
/** `code`: the error of a refusal; undefined if there was no reply. */
export type AdminActionResult = (ok: boolean, code?: ErrorCode) => void;

const retryMs = 1_000;
const replyMsMax = 12_000;

export class OperatorClient {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #random: Random;
  readonly #ids = new Map<string, NodeId>();

  constructor(world: SimulatedWorld<SimulatedNode>, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  /** Through a random node. */
  perform(run: AdminAction, ended: AdminActionResult = () => undefined): void {
    this.performOn(this.#random.pick(this.#world.names), run, ended);
  }

  /** Ends also if that node never replies: it may crash meanwhile. */
  performOn(name: string, run: AdminAction, ended: AdminActionResult): void {
    let isOpen = true;
    const end: AdminActionResult = (ok, code) => {
      if (isOpen) ended(ok, code);
      isOpen = false;
    };
    this.schedule(replyMsMax, () => end(false));
    this.#world.host(name).process?.run(() => {
      const core = this.core(name);
      if (core !== undefined) run(core, (outcome) => end(outcome.ok, outcome.ok ? undefined : outcome.error.code));
    });
  }

  /** False: the id of that node is unknown, because it was never up. */
  drain(node: string): boolean {
    const id = this.idOf(node);
    if (id === undefined) return false;
    this.#world.log.add('world', `operator: drains ${node}`);
    this.perform((core, done) => core.control?.operations.drain(id, {}, done));
    return true;
  }

  /** Retries while `shouldRetry`: the node may be drained for other reasons, and it may be down. */
  activate(node: string, shouldRetry: () => boolean): void {
    const retry = (): void => this.schedule(retryMs, () => this.activate(node, shouldRetry));
    const id = this.idOf(node);
    if (id === undefined) return retry();
    this.perform(
      (core, done) => {
        if (core.control !== undefined)
          activateNodeState({ registry: core.control.registry, clock: core.clock }, { node: id }, done);
      },
      (ok) => {
        if (!ok && shouldRetry()) retry();
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

  schedule(delayMs: number, run: () => void): void {
    this.#world.timeline.after(delayMs, run);
  }
}
