/**
 * Runs the registered shutdown steps in a fixed order within one budget. A step that hangs or fails is named and does
 * not stop the rest: every later step has its share.
 */
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { TaskRunner } from '../../base/runtime/task-runner.ts';
import { StopBudget } from '../core/stop-budget.ts';

export type ShutdownReport = {
  readonly failed: readonly { readonly step: string; readonly error: unknown }[];
  readonly stuck: readonly string[];
};

/** A step that closes a port or a file takes a moment. The first steps may use what the others leave. */
const share = 0.025;

type Close = (limitMs: number) => Promise<void>;

export class Shutdown<Step extends string> {
  readonly #clock: Clock;
  readonly #order: readonly Step[];
  readonly #steps = new Map<Step, Close>();
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
  add(step: Step, close: Close): void {
    if (this.#running !== undefined) {
      close(0).catch((error: unknown) => this.#failed.push({ step, error }));
      throw new RemusterError('CANCELLED', `${step} was opened during the shutdown`);
    }
    assert(!this.#steps.has(step), `${step} was opened twice`);
    this.#steps.set(step, close);
  }

  /** `close` of each step learns how much time it has. A second call waits for the first. */
  run(budgetMs: number): Promise<ShutdownReport> {
    this.#running ??= this.#runAll(new StopBudget(this.#clock, budgetMs));
    return this.#running;
  }

  async #runAll(budget: StopBudget): Promise<ShutdownReport> {
    const steps = this.#order.filter((step) => this.#steps.has(step));
    for (const [index, step] of steps.entries()) {
      const limitMs = budget.limitMs(steps.slice(index + 1).map(() => share));
      await this.#runOne(step, this.#steps.get(step) as Close, limitMs);
    }
    const { stuck } = await this.#runner.stop(0);
    return { failed: this.#failed, stuck };
  }

  #runOne(step: Step, close: Close, timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancelTimeout = this.#clock.schedule(timeoutMs, resolve);
      this.#runner.run(step, async () => {
        try {
          await close(timeoutMs);
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
