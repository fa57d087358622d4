/**
 * Runs the registered shutdown steps in a fixed order, each with a deadline. A step that hangs or fails is named and
 * does not stop the rest.
 */
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { TaskRunner } from '../../base/runtime/task-runner.ts';

export type ShutdownReport = {
  readonly failed: readonly { readonly step: string; readonly error: unknown }[];
  readonly stuck: readonly string[];
};

export class Shutdown<Step extends string> {
  readonly #clock: Clock;
  readonly #order: readonly Step[];
  readonly #steps = new Map<Step, () => Promise<void>>();
  readonly #failed: { step: string; error: unknown }[] = [];
  readonly #runner: TaskRunner;
  #running: Promise<ShutdownReport> | undefined;

  constructor(clock: Clock, order: readonly Step[]) {
    this.#clock = clock;
    this.#order = order;
    this.#runner = new TaskRunner({
      clock,
      onTaskFailed: (step, error) => this.#failed.push({ step, error }),
      tasksMax: order.length,
    });
  }

  /** `close` is called at most once. A resource that is opened during the shutdown is closed at once, with an error. */
  add(step: Step, close: () => Promise<void>): void {
    if (this.#running !== undefined) {
      close().catch((error: unknown) => this.#failed.push({ step, error }));
      throw new RemusterError('CANCELLED', `${step} was opened during the shutdown`);
    }
    assert(!this.#steps.has(step), `${step} was opened twice`);
    this.#steps.set(step, close);
  }

  /** A second call waits for the first. */
  run(stepTimeoutMs: number): Promise<ShutdownReport> {
    this.#running ??= this.#runAll(stepTimeoutMs);
    return this.#running;
  }

  async #runAll(stepTimeoutMs: number): Promise<ShutdownReport> {
    for (const step of this.#order) {
      const close = this.#steps.get(step);
      if (close !== undefined) await this.#runOne(step, close, stepTimeoutMs);
    }
    const { stuck } = await this.#runner.stop(0);
    return { failed: this.#failed, stuck };
  }

  #runOne(step: Step, close: () => Promise<void>, timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancelTimeout = this.#clock.schedule(timeoutMs, resolve);
      this.#runner.run(step, async () => {
        try {
          await close();
        } catch (error) {
          this.#failed.push({ step, error });
        } finally {
          cancelTimeout();
          resolve();
        }
      });
    });
  }
}
