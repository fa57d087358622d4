/** Fake code: the JSON that fake runners execute in place of JavaScript: how the units of each workflow behave. */

export type FakeCodeBehaviour = {
  /** The mean duration of one item or iteration. */
  readonly itemMs: number;
  /** The percentage of items that fail; each run draws other items. */
  readonly failingPercent?: number;
  /** The number of items, where only the code knows it. */
  readonly items?: number;
  /** False: the workflow has no output for its successors. */
  readonly hasOutput?: boolean;
  /** The item that a search finds. */
  readonly finds?: number;
  /**
   * `throws`: setup throws. `crashes`: the process exits after its first item. `hangs`: the unit never ends.
   * `ignoresStop`: it never ends and ignores the stop command. `sendsGarbage`: it violates the runner protocol.
   */
  readonly trouble?: 'throws' | 'crashes' | 'hangs' | 'ignoresStop' | 'sendsGarbage';
  /** Only the first so many runs of a unit have the trouble. */
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
