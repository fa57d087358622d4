/**
 * One listener per AbortSignal for any number of calls, as an intrusive list, because each stays only for a moment.
 * Keeps no signal alive.
 */
import type { Cancel } from '../../base/ports.ts';

export type AbortListener = {
  readonly cancel: Cancel;
  /** Its neighbours; undefined while it hangs on nothing. Only this file writes them. */
  previous: AbortListener | undefined;
  next: AbortListener | undefined;
};

/** Between the last and the first of each signal; never cancelled. */
const hubs = new WeakMap<AbortSignal, AbortListener>();

/** It is cancelled when the signal aborts, which it has not yet, unless it lets go before. */
export function addAbortListener(signal: AbortSignal, hanging: AbortListener): void {
  const hub = hubs.get(signal) ?? newHub(signal);
  const last = hub.previous as AbortListener;
  hanging.previous = last;
  hanging.next = hub;
  last.next = hanging;
  hub.previous = hanging;
}

export function removeAbortListener(hanging: AbortListener): void {
  const { previous, next } = hanging;
  if (previous === undefined || next === undefined) return;
  previous.next = next;
  next.previous = previous;
  hanging.previous = undefined;
  hanging.next = undefined;
}

function newHub(signal: AbortSignal): AbortListener {
  const hub: AbortListener = { cancel: () => {}, previous: undefined, next: undefined };
  hub.previous = hub;
  hub.next = hub;
  hubs.set(signal, hub);
  const abort = (): void => {
    // Whoever is cancelled may end others, or begin new ones; those find the signal aborted.
    for (let first = hub.next; first !== undefined && first !== hub; first = hub.next) {
      removeAbortListener(first);
      first.cancel();
    }
  };
  signal.addEventListener('abort', abort, { once: true });
  return hub;
}
