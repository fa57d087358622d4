/**
 * A node in one of its lives, as a patient client of a simulated cluster has it: what is asked of it ends when it answers
 * or when that life is over, and not before. So whoever asks knows that nothing of it is still under way there.
 */
import type { Done, Outcome } from '../../base/errors.ts';
import type { NodeCore } from '../../node/core.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { Life } from '../life.ts';
import type { StageSpec } from '../observation.ts';
import type { World } from '../world.ts';

/** By how much a clock may run faster than the world; see the fault `drift`. */
const fastestClock = 1.2;

export type Question<T> = {
  /** Number of the request, for whoever counts endings. */
  readonly request: number;
  /** When it has to be over, by the clock of the node. */
  readonly timeoutMs: number;
  readonly ask: (core: NodeCore, done: Done<T>) => void;
};

/** `undefined`: the life is over. */
export type Answered<T> = (outcome: Outcome<T> | undefined) => void;

export class AskedNode {
  readonly name: string;
  readonly #world: World<HostedNode>;
  readonly #observe: StageSpec['observe'];
  readonly #core: NodeCore;
  readonly #life: Life;

  private constructor(
    name: string,
    world: World<HostedNode>,
    observe: StageSpec['observe'],
    { core, life }: { readonly core: NodeCore; readonly life: Life },
  ) {
    this.name = name;
    this.#world = world;
    this.#observe = observe;
    this.#core = core;
    this.#life = life;
  }

  /** Undefined while it is down or not ready. */
  static of(name: string, world: World<HostedNode>, observe: StageSpec['observe']): AskedNode | undefined {
    const [core, { life }] = [world.program(name)?.core, world.host(name)];
    if (core?.containers === undefined || core.control === undefined || life === undefined) return undefined;
    return new AskedNode(name, world, observe, { core, life });
  }

  get isAlive(): boolean {
    return this.#life.alive;
  }

  ask<T>({ request, timeoutMs, ask }: Question<T>, answered: Answered<T>): void {
    let isOpen = true;
    const end: Answered<T> = (outcome) => {
      if (isOpen) answered(outcome);
      isOpen = false;
    };
    const [core, life, { clock }] = [this.#core, this.#life, this.#core];
    life.atEnd(() => this.#world.timeline.after(0, () => end(undefined)));
    life.enter(() => {
      const [deadlineMs, stalledMs] = [clock.nowMs() + timeoutMs, life.stalledMs];
      this.#observe({ kind: 'requestStarted', node: this.name, request, timeoutMs });
      ask(core, (outcome) => {
        const lateMs = clock.nowMs() - deadlineMs - fastestClock * (life.stalledMs - stalledMs);
        const code = outcome.ok ? 'OK' : outcome.error.code;
        this.#observe({ kind: 'requestEnded', node: this.name, request, code, lateMs });
        end(outcome);
      });
    });
  }
}
