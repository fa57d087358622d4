/** Sequential model of one text register: read, put, compare-and-swap, append. A missing reply allows any outcome. */
import type { SequentialModel } from './linearizability.ts';

export type RegisterAction =
  | { readonly kind: 'read'; readonly returned?: string | undefined }
  | { readonly kind: 'put'; readonly value: string }
  /** Answers with what was there before, swapped or not. */
  | { readonly kind: 'swap'; readonly expected: string; readonly value: string; readonly returned?: string | undefined }
  /** Adds to the end and answers with the whole. */
  | { readonly kind: 'append'; readonly value: string; readonly returned?: string | undefined };

export const registerModel: SequentialModel<string, RegisterAction> = {
  initial: '',
  after: (state, action, answered) => {
    if (action.kind === 'put') return action.value;
    const after = changed(state, action);
    const shown = action.kind === 'append' ? after : state;
    return !answered || action.returned === shown ? after : undefined;
  },
  print: (state) => state,
  dependsOn: (action, answered, state) => {
    // Appends may come in between, so the state is the beginning of what is seen in the end.
    if (action.kind === 'swap' && !answered) return action.expected.startsWith(state);
    return answered && action.kind !== 'put' && (action.returned ?? '').startsWith(state);
  },
};

function changed(state: string, action: Exclude<RegisterAction, { readonly kind: 'put' }>): string {
  if (action.kind === 'append') return state + action.value;
  return action.kind === 'swap' && action.expected === state ? action.value : state;
}
