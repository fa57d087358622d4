/** Sequential model of one text register: read, put, compare-and-swap, append. A missing reply allows any outcome. */
import type { SequentialModel } from './linearizability.ts';

export type RegisterAction =
  | { readonly kind: 'read'; readonly returned?: string | undefined }
  | { readonly kind: 'put'; readonly value: string }
  /** Returns the value before the action, swapped or not. */
  | { readonly kind: 'swap'; readonly expected: string; readonly value: string; readonly returned?: string | undefined }
  /** Adds to the end and returns the new value. */
  | { readonly kind: 'append'; readonly value: string; readonly returned?: string | undefined };

export const registerModel: SequentialModel<string, RegisterAction> = {
  initial: '',
  after: (state, action, hasReply) => {
    if (action.kind === 'put') return action.value;
    const after = changed(state, action);
    const expected = action.kind === 'append' ? after : state;
    return !hasReply || action.returned === expected ? after : undefined;
  },
  print: (state) => state,
  dependsOn: (action, hasReply, state) => {
    // Appends may come between, so the state need only be a prefix of the returned value.
    if (action.kind === 'swap' && !hasReply) return action.expected.startsWith(state);
    return hasReply && action.kind !== 'put' && (action.returned ?? '').startsWith(state);
  },
};

function changed(state: string, action: Exclude<RegisterAction, { readonly kind: 'put' }>): string {
  if (action.kind === 'append') return state + action.value;
  return action.kind === 'swap' && action.expected === state ? action.value : state;
}
