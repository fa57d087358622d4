/** The mark of code that is stored whole, as small JSON. What cannot be read is undefined. */
export type BundleMark = {
  readonly bytes: number;
  readonly parts: number;
  /** For people. */
  readonly storedWallMs: number;
};

export function encodeMark(mark: BundleMark): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(mark));
}

export function readMark(value: Uint8Array): BundleMark | undefined {
  try {
    const read = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value)) as Partial<BundleMark> | null;
    if (typeof read?.bytes !== 'number' || typeof read.parts !== 'number') return undefined;
    return { bytes: read.bytes, parts: read.parts, storedWallMs: read.storedWallMs ?? 0 };
  } catch {
    return undefined;
  }
}
