/**
 * Texts about a late return: the node is drained for it, and without a message it would look healthy and get no work.
 */
import { activateCommand, isLateReturn, type StateReason } from '../../registration/node-modes.ts';
import type { RegistrationOptions } from '../../registration/registration-options.ts';

export function lateReturnText({ rejoin, rejoinHoldMs }: Pick<RegistrationOptions, 'rejoin' | 'rejoinHoldMs'>): string {
  const text =
    'this node returned after its registration had expired: it is drained and gets no work until it is activated';
  return rejoin === 'auto' ? `${text}; it activates itself after ${rejoinHoldMs / 1_000} s without an incident` : text;
}

/** The command that activates the node, if this change of its state drained it for a late return. */
export function activationHint(change: Readonly<Record<string, unknown>>): string | undefined {
  const isDrained = change['mode'] === 'drained' && isLateReturn(change['reason'] as StateReason);
  return isDrained ? activateCommand(String(change['member'])) : undefined;
}
