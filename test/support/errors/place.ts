/** A place on the way of a call or write at which it is stopped between its effect and its answer. No behaviour. */
import type { Outcome, StateChanged } from '../../../src/base/errors.ts';

/** `happened`: the effect is found afterwards, or may be. */
export type Ending = { readonly outcome: Outcome<unknown> | undefined; readonly happened: boolean };

export type Place = {
  readonly place: string;
  readonly says: StateChanged;
  readonly run: () => Ending | Promise<Ending>;
};
