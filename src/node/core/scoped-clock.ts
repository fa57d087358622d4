/**
 * A clock whose timers end with their owner: after `close` nothing runs and nothing keeps the process awake. Machines
 * never cancel timers.
 */
import type { Cancel, Clock } from '../../base/ports.ts';

export type ScopedClock = { readonly clock: Clock; readonly close: () => void };

export function scopedClock(inner: Clock): ScopedClock {
  const pending = new Set<Cancel>();
  let open = true;
  const schedule: Clock['schedule'] = (delayMs, run) => {
    if (!open) return () => {};
    const cancel = inner.schedule(delayMs, () => {
      pending.delete(cancel);
      run();
    });
    pending.add(cancel);
    return () => {
      pending.delete(cancel);
      cancel();
    };
  };
  return {
    clock: { nowMs: () => inner.nowMs(), wallMs: () => inner.wallMs(), schedule },
    close: () => {
      open = false;
      for (const cancel of pending) cancel();
      pending.clear();
    },
  };
}
