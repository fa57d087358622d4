/**
 * A client of one node instance: a request ends with its reply or with the process of the node, so no request stays in
 * flight there.
 */
import type { Done, Outcome } from '../../../../src/base/errors.ts';
import type { NodeCore } from '../../../../src/node/core/node-core-types.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { SimulatedProcess } from '../../../../src/simulation/engine/simulated-process.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;

export type NodeRequest<T> = {
  /** Number of the request in the observations. */
  readonly request: number;
  /** The deadline by the clock of the node. */
  readonly timeoutMs: number;
  readonly run: (core: NodeCore, done: Done<T>) => void;
};

/** Undefined: the process of the node is gone. */
export type NodeReplyHandler<T> = (outcome: Outcome<T> | undefined) => void;

export class NodeClient {
  readonly name: string;
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #core: NodeCore;
  readonly #process: SimulatedProcess;

  private constructor(
    name: string,
    world: SimulatedWorld<SimulatedNode>,
    observe: WorkloadContext['observe'],
    { core, process }: { readonly core: NodeCore; readonly process: SimulatedProcess },
  ) {
    this.name = name;
    this.#world = world;
    this.#observe = observe;
    this.#core = core;
    this.#process = process;
  }

  /** Undefined while it is down or not ready. */
  static of(
    name: string,
    world: SimulatedWorld<SimulatedNode>,
    observe: WorkloadContext['observe'],
  ): NodeClient | undefined {
    const [core, { process }] = [world.program(name)?.core, world.host(name)];
    if (core?.containers === undefined || core.control === undefined || process === undefined) return undefined;
    return new NodeClient(name, world, observe, { core, process });
  }

  get isAlive(): boolean {
    return this.#process.alive;
  }

  request<T>({ request, timeoutMs, run }: NodeRequest<T>, onReply: NodeReplyHandler<T>): void {
    let isOpen = true;
    const end: NodeReplyHandler<T> = (outcome) => {
      if (isOpen) onReply(outcome);
      isOpen = false;
    };
    const [core, process, { clock }] = [this.#core, this.#process, this.#core];
    process.onExit(() => this.#world.timeline.after(0, () => end(undefined)));
    process.run(() => {
      const [deadlineMs, pausedMs] = [clock.nowMs() + timeoutMs, process.pausedMs];
      this.#observe({ kind: 'requestStarted', node: this.name, request, timeoutMs });
      run(core, (outcome) => {
        const lateMs = clock.nowMs() - deadlineMs - fastestClock * (process.pausedMs - pausedMs);
        const code = outcome.ok ? 'OK' : outcome.error.code;
        this.#observe({ kind: 'requestEnded', node: this.name, request, code, lateMs });
        end(outcome);
      });
    });
  }
}
