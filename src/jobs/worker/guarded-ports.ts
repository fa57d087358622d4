/** Wraps the clock and runner ports: an exception in a callback reaches `halted` and never the event loop. */
import type { Clock, Runners } from '../../base/ports.ts';

type Halted = (error: unknown) => void;

export function runGuarded(halted: Halted, run: () => void): void {
  try {
    run();
  } catch (error) {
    halted(error);
  }
}

export function guardedClock(clock: Clock, halted: Halted): Clock {
  return {
    nowMs: () => clock.nowMs(),
    wallMs: () => clock.wallMs(),
    schedule: (delayMs, run) => clock.schedule(delayMs, () => runGuarded(halted, run)),
  };
}

export function guardedRunners(runners: Runners, halted: Halted): Runners {
  return {
    start: (spec, events) =>
      runners.start(spec, {
        message: (body) => runGuarded(halted, () => events.message(body)),
        exited: (reason) => runGuarded(halted, () => events.exited(reason)),
      }),
  };
}
