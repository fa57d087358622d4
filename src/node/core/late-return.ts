/**
 * What a node says when it returned too late and is drained for it: without a word, such a node looks healthy and gets
 * nothing to do.
 */
import { activateCommand, isLateReturn, type StateReason } from '../../registration/node-modes.ts';
import type { RegistrationOptions } from '../../registration/registration-options.ts';

export function returnedDrained({
  rejoin,
  rejoinHoldMs,
}: Pick<RegistrationOptions, 'rejoin' | 'rejoinHoldMs'>): string {
  const text =
    'this node returned after its registration had run out: it is drained and gets no work until it is activated';
  return rejoin === 'auto' ? `${text}, which it does itself after ${rejoinHoldMs / 1_000} s without incident` : text;
}

/** The command that activates the node, if this change of its state drained it for returning too late. */
export function activationHint(change: Readonly<Record<string, unknown>>): string | undefined {
  const isDrained = change['mode'] === 'drained' && isLateReturn(change['reason'] as StateReason);
  return isDrained ? activateCommand(String(change['member'])) : undefined;
}
