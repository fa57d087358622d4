/** Types of the places at which a call or write is stopped between its effect and its reply. No behaviour. */
import type { Outcome, StateChanged } from '../../../src/base/errors.ts';

/** `hasEffect`: the effect is found afterwards, or may be. */
export type Ending = { readonly outcome: Outcome<unknown> | undefined; readonly hasEffect: boolean };

export type Place = {
  readonly place: string;
  /** The value that the error must have. */
  readonly stateChanged: StateChanged;
  readonly run: () => Ending | Promise<Ending>;
};
