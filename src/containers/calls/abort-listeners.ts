/**
 * One event listener per AbortSignal for any number of calls. The calls form an intrusive list, because each stays only
 * for a moment. Keeps no signal alive.
 */
import type { Cancel } from '../../base/ports.ts';

export type AbortListener = {
  readonly cancel: Cancel;
  /** Neighbours in the list of a signal; undefined outside of one. Only this file writes them. */
  previous: AbortListener | undefined;
  next: AbortListener | undefined;
};

/** The sentinel of the list of each signal; never cancelled. */
const lists = new WeakMap<AbortSignal, AbortListener>();

/** Cancels the listener when the signal aborts, unless it is removed before. The signal is not aborted yet. */
export function addAbortListener(signal: AbortSignal, listener: AbortListener): void {
  const head = lists.get(signal) ?? createList(signal);
  const last = head.previous as AbortListener;
  listener.previous = last;
  listener.next = head;
  last.next = listener;
  head.previous = listener;
}

export function removeAbortListener(listener: AbortListener): void {
  const { previous, next } = listener;
  if (previous === undefined || next === undefined) return;
  previous.next = next;
  next.previous = previous;
  listener.previous = undefined;
  listener.next = undefined;
}

function createList(signal: AbortSignal): AbortListener {
  const head: AbortListener = { cancel: () => {}, previous: undefined, next: undefined };
  head.previous = head;
  head.next = head;
  lists.set(signal, head);
  const abort = (): void => {
    // A cancelled call may remove others from the list, or start new ones, which find the signal aborted.
    for (let first = head.next; first !== undefined && first !== head; first = head.next) {
      removeAbortListener(first);
      first.cancel();
    }
  };
  signal.addEventListener('abort', abort, { once: true });
  return head;
}
