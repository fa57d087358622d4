/** Registry entries and changes as JSON. A value too large for an event is cut and marked. Pure. */
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });
/** Total size of the values in one event; a client reads the key for a larger value. */
export const watchEventBytesMax = 262_144;

export function entryToJson({ value, ...entry }: RegistryEntry): object {
  return { ...entryFields(entry), ...textOf(value) };
}

/** All changes; values up to the bound of an event, then `cut` with their size. */
export function changesToJson(changes: readonly RegistryChange[]): readonly object[] {
  let bytesLeft = watchEventBytesMax;
  return changes.map((change) => {
    if (change.kind === 'delete') return { kind: 'delete', key: change.key, modRevision: change.modRevision };
    const { value, ...entry } = change.entry;
    bytesLeft -= value.length;
    const valueFields = bytesLeft >= 0 ? textOf(value) : { cut: true, valueBytes: value.length };
    return { kind: 'put', ...entryFields(entry), ...valueFields };
  });
}

function entryFields({ key, version, createRevision, modRevision, lease }: Omit<RegistryEntry, 'value'>): object {
  return { key, version, createRevision, modRevision, lease: lease ?? null };
}

function textOf(value: Uint8Array): { readonly value: string; readonly encoding?: 'hex' } {
  try {
    return { value: decoder.decode(value) };
  } catch {
    return { value: Array.from(value, (byte) => byte.toString(16).padStart(2, '0')).join(''), encoding: 'hex' };
  }
}
