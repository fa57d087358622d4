/**
 * Runs the steps of a stop one after another within one budget. A step that is late is reported and does not stop the
 * rest; what it does later has no effect on the sequence.
 */
import type { Clock } from '../../base/ports.ts';
import { StopBudget } from './stop-budget.ts';

export type StopStep = {
  readonly name: string;
  /** The part of the budget that earlier steps leave for this one. */
  readonly share: number;
  /** Calls `done` once, when the step has ended; `limitMs` is the time it has. */
  readonly run: (limitMs: number, done: () => void) => void;
};

export type StopSequenceHooks = {
  /** The step did not end in time. */
  late(step: string, limitMs: number): void;
  ended(): void;
};

export function runStopSequence(
  clock: Clock,
  totalMs: number,
  steps: readonly StopStep[],
  hooks: StopSequenceHooks,
): void {
  const budget = new StopBudget(clock, totalMs);
  const runFrom = (index: number): void => {
    const step = steps[index];
    if (step === undefined) return hooks.ended();
    const limitMs = budget.limitMs(steps.slice(index + 1).map(({ share }) => share));
    let isOver = false;
    const next = (): void => {
      if (isOver) return;
      isOver = true;
      cancel();
      // A step may end at once: the stack does not grow with the steps.
      clock.schedule(0, () => runFrom(index + 1));
    };
    const cancel = clock.schedule(limitMs, () => {
      if (!isOver) hooks.late(step.name, limitMs);
      next();
    });
    step.run(limitMs, next);
  };
  runFrom(0);
}
