/**
 * A client of one node in one of its lives: a request ends with its reply or with that life, so nothing stays in flight
 * there.
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
  /** Number of the request, for whoever counts endings. */
  readonly request: number;
  /** When it has to be over, by the clock of the node. */
  readonly timeoutMs: number;
  readonly ask: (core: NodeCore, done: Done<T>) => void;
};

/** `undefined`: the life is over. */
export type NodeReplyHandler<T> = (outcome: Outcome<T> | undefined) => void;

export class NodeClient {
  readonly name: string;
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #core: NodeCore;
  readonly #life: SimulatedProcess;

  private constructor(
    name: string,
    world: SimulatedWorld<SimulatedNode>,
    observe: WorkloadContext['observe'],
    { core, life }: { readonly core: NodeCore; readonly life: SimulatedProcess },
  ) {
    this.name = name;
    this.#world = world;
    this.#observe = observe;
    this.#core = core;
    this.#life = life;
  }

  /** Undefined while it is down or not ready. */
  static of(
    name: string,
    world: SimulatedWorld<SimulatedNode>,
    observe: WorkloadContext['observe'],
  ): NodeClient | undefined {
    const [core, { process: life }] = [world.program(name)?.core, world.host(name)];
    if (core?.containers === undefined || core.control === undefined || life === undefined) return undefined;
    return new NodeClient(name, world, observe, { core, life });
  }

  get isAlive(): boolean {
    return this.#life.alive;
  }

  request<T>({ request, timeoutMs, ask }: NodeRequest<T>, answered: NodeReplyHandler<T>): void {
    let isOpen = true;
    const end: NodeReplyHandler<T> = (outcome) => {
      if (isOpen) answered(outcome);
      isOpen = false;
    };
    const [core, life, { clock }] = [this.#core, this.#life, this.#core];
    life.onExit(() => this.#world.timeline.after(0, () => end(undefined)));
    life.run(() => {
      const [deadlineMs, stalledMs] = [clock.nowMs() + timeoutMs, life.pausedMs];
      this.#observe({ kind: 'requestStarted', node: this.name, request, timeoutMs });
      ask(core, (outcome) => {
        const lateMs = clock.nowMs() - deadlineMs - fastestClock * (life.pausedMs - stalledMs);
        const code = outcome.ok ? 'OK' : outcome.error.code;
        this.#observe({ kind: 'requestEnded', node: this.name, request, code, lateMs });
        end(outcome);
      });
    });
  }
}
