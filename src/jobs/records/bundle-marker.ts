/**
 * The stored form of the marker that commits a bundle: without it the stored parts do not count. Decodes an unreadable
 * value to undefined.
 */
export type BundleMarker = {
  readonly bytes: number;
  readonly parts: number;
  /** For display only. */
  readonly storedWallMs: number;
};

export function encodeBundleMarker(marker: BundleMarker): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(marker));
}

export function decodeBundleMarker(value: Uint8Array): BundleMarker | undefined {
  try {
    const read = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value)) as Partial<BundleMarker> | null;
    if (typeof read?.bytes !== 'number' || typeof read.parts !== 'number') return undefined;
    return { bytes: read.bytes, parts: read.parts, storedWallMs: read.storedWallMs ?? 0 };
  } catch {
    return undefined;
  }
}
