/**
 * One listener for each signal, however many calls hang on it: a signal looks through all of its listeners when one of
 * them goes, and a method that calls a thousand containers hangs all of those calls on one. They are linked through
 * themselves, because each stays only for a moment. No signal is held alive.
 */
import type { Cancel } from '../../base/ports.ts';

export type Hanging = {
  readonly cancel: Cancel;
  /** Its neighbours; undefined while it hangs on nothing. Only this file writes them. */
  hangsBefore: Hanging | undefined;
  hangsAfter: Hanging | undefined;
};

/** Between the last and the first of each signal; never cancelled. */
const hubs = new WeakMap<AbortSignal, Hanging>();

/** It is cancelled when the signal aborts, which it has not yet, unless it lets go before. */
export function hangOn(signal: AbortSignal, hanging: Hanging): void {
  const hub = hubs.get(signal) ?? newHub(signal);
  const last = hub.hangsBefore as Hanging;
  hanging.hangsBefore = last;
  hanging.hangsAfter = hub;
  last.hangsAfter = hanging;
  hub.hangsBefore = hanging;
}

export function letGo(hanging: Hanging): void {
  const { hangsBefore, hangsAfter } = hanging;
  if (hangsBefore === undefined || hangsAfter === undefined) return;
  hangsBefore.hangsAfter = hangsAfter;
  hangsAfter.hangsBefore = hangsBefore;
  hanging.hangsBefore = undefined;
  hanging.hangsAfter = undefined;
}

function newHub(signal: AbortSignal): Hanging {
  const hub: Hanging = { cancel: () => {}, hangsBefore: undefined, hangsAfter: undefined };
  hub.hangsBefore = hub;
  hub.hangsAfter = hub;
  hubs.set(signal, hub);
  const abort = (): void => {
    // Whoever is cancelled may end others, or begin new ones; those find the signal aborted.
    for (let first = hub.hangsAfter; first !== undefined && first !== hub; first = hub.hangsAfter) {
      letGo(first);
      first.cancel();
    }
  };
  signal.addEventListener('abort', abort, { once: true });
  return hub;
}
