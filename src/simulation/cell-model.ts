/**
 * The sequential model of one cell of text: read, put, compare-and-swap, append. For linearizability.ts; an answer that
 * is missing allows anything.
 */
import type { Model } from './linearizability.ts';

export type CellAction =
  | { readonly kind: 'read'; readonly saw?: string | undefined }
  | { readonly kind: 'put'; readonly value: string }
  /** Answers with what was there before, swapped or not. */
  | { readonly kind: 'swap'; readonly expected: string; readonly value: string; readonly saw?: string | undefined }
  /** Adds to the end and answers with the whole. */
  | { readonly kind: 'append'; readonly value: string; readonly saw?: string | undefined };

export const cellModel: Model<string, CellAction> = {
  initial: '',
  after: (state, action, answered) => {
    if (action.kind === 'put') return action.value;
    const after = changed(state, action);
    const shown = action.kind === 'append' ? after : state;
    return !answered || action.saw === shown ? after : undefined;
  },
  print: (state) => state,
  depends: (action, answered, state) => {
    // Appends may come in between, so the state is the beginning of what is seen in the end.
    if (action.kind === 'swap' && !answered) return action.expected.startsWith(state);
    return answered && action.kind !== 'put' && (action.saw ?? '').startsWith(state);
  },
};

function changed(state: string, action: Exclude<CellAction, { readonly kind: 'put' }>): string {
  if (action.kind === 'append') return state + action.value;
  return action.kind === 'swap' && action.expected === state ? action.value : state;
}
