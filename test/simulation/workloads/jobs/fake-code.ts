/** The JSON that fake runners execute in place of JavaScript: how the units of each workflow behave. */

export type FakeCodeBehaviour = {
  /** What one item or iteration takes, about. */
  readonly itemMs: number;
  /** How many of a hundred items go wrong; another lot with each run. */
  readonly failingPercent?: number;
  /** How many items there are, where only the code knows. */
  readonly items?: number;
  /** False: it has nothing for those after it. */
  readonly handsOn?: boolean;
  /** The item that a search is for. */
  readonly finds?: number;
  /**
   * `throws`: setup throws. `dies`: the process ends after its first item. `hangs`: it never ends. `deaf`: it never ends
   * and does not hear that it should. `babbles`: it breaks the words between runner and worker.
   */
  readonly trouble?: 'throws' | 'dies' | 'hangs' | 'deaf' | 'babbles';
  /** `trouble` strikes only in the first so many runs of a unit. */
  readonly troubleRuns?: number;
  /** Only this unit has the trouble. */
  readonly troubleUnit?: number;
};

export type FakeCode = { readonly workflows: Readonly<Record<string, FakeCodeBehaviour>> };

export function encodeFakeCode(code: FakeCode): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(code));
}

export function decodeFakeCode(bytes: Uint8Array): FakeCode {
  return JSON.parse(new TextDecoder().decode(bytes)) as FakeCode;
}
