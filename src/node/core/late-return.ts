/**
 * What a node says when it returned too late and is drained for it: without a word, such a node looks healthy and gets
 * nothing to do.
 */
import { activateCommand, isLateReturn, type StateReason } from '../../registration/node-modes.ts';

export const returnedDrained =
  'this node returned after its registration had run out: it is drained and gets no work until it is activated (option rejoin)';

/** The command that activates the node, if a change of its state drained it for returning too late. */
export function activationHint(change: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const isDrained = change['mode'] === 'drained' && isLateReturn(change['reason'] as StateReason);
  return isDrained ? activateCommand(name) : undefined;
}
