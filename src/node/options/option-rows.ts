/** The type of a row of the options table, and its constructors. Knows no option by name. */
import { durationOption, type OptionType } from './option-types.ts';

export const profiles = ['local', 'lan', 'wan', 'classic'] as const;
export type Profile = (typeof profiles)[number];

export type OptionRow<T> = {
  readonly type: OptionType<T>;
  readonly defaultFor: (profile: Profile) => T;
  /** True when the default depends on the profile. */
  readonly profiled: boolean;
  /** True when `timeScale` multiplies the value: protocol times, and only those. */
  readonly scaled: boolean;
  /** True when the value is never shown and never taken from the command line, which other users can read. */
  readonly secret: boolean;
  readonly env: string | undefined;
  /** One sentence. */
  readonly doc: string;
};

type Traits = { readonly env?: string; readonly secret?: true; readonly scaled?: true };

export function optionRow<T>(type: OptionType<T>, fallback: T, doc: string, traits: Traits = {}): OptionRow<T> {
  return row(type, () => fallback, false, doc, traits);
}

/** A protocol time: its default follows the profile and `timeScale` multiplies it. */
export function timeOptionRow(
  min: number,
  max: number,
  defaults: Readonly<Record<Profile, number>>,
  doc: string,
): OptionRow<number> {
  return row(durationOption({ min, max }), (profile) => defaults[profile], true, doc, { scaled: true });
}

function row<T>(
  type: OptionType<T>,
  defaultFor: (profile: Profile) => T,
  profiled: boolean,
  doc: string,
  traits: Traits,
): OptionRow<T> {
  const { env, secret = false, scaled = false } = traits;
  return { type, defaultFor, profiled, scaled, secret, env, doc };
}

/** A plain number that depends on the profile: a count, a bound or a ratio. */
export function profileOptionRow(
  type: OptionType<number>,
  defaults: Readonly<Record<Profile, number>>,
  doc: string,
): OptionRow<number> {
  return row(type, (profile) => defaults[profile], new Set(Object.values(defaults)).size > 1, doc, {});
}
