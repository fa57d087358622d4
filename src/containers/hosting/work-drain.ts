/**
 * Waits until a plugged container has no running turn, no pending commit and, by its module's `workRemaining`, no work.
 * Sets no deadline of its own: the owner stops it.
 *
 *   idle -> workRemaining -> 0, or it cannot be asked: drained
 *     ^          +-> above 0: again after `workPollMs`
 */
import type { Outcome, RemusterError } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Activation } from './activation.ts';

export type WorkDrainParts = {
  readonly clock: Clock;
  readonly activation: Pick<Activation, 'definition' | 'run' | 'whenIdle'>;
  readonly workPollMs: number;
  /** False: the module cannot be asked, because no turn may run. Left out: wait until it can. */
  readonly canAsk?: () => boolean;
  /** Time limit of one `workRemaining`. */
  readonly timeMsMax: () => number;
  readonly drained: () => void;
  /** `workRemaining` has failed. */
  readonly failed: (error: RemusterError) => void;
};

export class WorkDrain {
  readonly #parts: WorkDrainParts;
  #isStopped = false;
  #cancelTimer: Cancel | undefined;

  constructor(parts: WorkDrainParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#parts.activation.whenIdle(() => this.#onIdle());
  }

  /** Neither callback follows. */
  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer?.();
  }

  #onIdle(): void {
    const { activation, timeMsMax, drained, failed } = this.#parts;
    const { definition } = activation;
    if (this.#isStopped) return;
    if (definition.workRemaining === undefined) return drained();
    this.#watchWhetherItCanAsk();
    let remaining = 0;
    const done = (outcome: Outcome<void>): void => {
      if (this.#isStopped) return;
      this.#cancelTimer?.();
      if (!outcome.ok) failed(outcome.error);
      else if (remaining > 0) this.#poll();
      else drained();
    };
    activation.run({
      name: 'workRemaining',
      timeMsMax: timeMsMax(),
      run: (ctx) => {
        remaining = definition.workRemaining?.(ctx) ?? 0;
      },
      done,
    });
  }

  #poll(): void {
    const { clock, workPollMs } = this.#parts;
    this.#cancelTimer = clock.schedule(workPollMs, () => this.start());
  }

  /** While `workRemaining` waits for its turn. */
  #watchWhetherItCanAsk(): void {
    const { clock, workPollMs, canAsk, drained } = this.#parts;
    if (canAsk === undefined) return;
    this.#cancelTimer = clock.schedule(workPollMs, () => {
      if (canAsk()) return this.#watchWhetherItCanAsk();
      this.stop();
      drained();
    });
  }
}
