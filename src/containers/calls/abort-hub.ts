/**
 * One listener for each signal, however many calls hang on it: a signal looks through all of its listeners when one of
 * them goes, and a method that calls a thousand containers hangs all of those calls on one. It holds no signal alive.
 */
import type { Cancel } from '../../base/ports.ts';

const hubs = new WeakMap<AbortSignal, Set<Cancel>>();

/** Calls `cancel` when the signal aborts, which it has not yet. The result takes that back. */
export function onAbort(signal: AbortSignal, cancel: Cancel): Cancel {
  const hub = hubs.get(signal) ?? newHub(signal);
  hub.add(cancel);
  return () => {
    hub.delete(cancel);
  };
}

function newHub(signal: AbortSignal): Set<Cancel> {
  const hub = new Set<Cancel>();
  hubs.set(signal, hub);
  const abort = (): void => {
    for (const cancel of [...hub]) cancel();
  };
  signal.addEventListener('abort', abort, { once: true });
  return hub;
}
