/** Registry entries and changes as JSON. A value too large for an event is cut and marked. Pure. */
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });
/** Of the values in one event: whoever wants more reads the key. */
const eventBytesMax = 262_144;

export function entryToJson({ value, ...entry }: RegistryEntry): object {
  return { ...placeShown(entry), ...textOf(value) };
}

/** All changes are told; values only as far as an event can carry them, and otherwise `cut` with their size. */
export function changesToJson(changes: readonly RegistryChange[]): readonly object[] {
  let bytesLeft = eventBytesMax;
  return changes.map((change) => {
    if (change.kind === 'delete') return { kind: 'delete', key: change.key, modRevision: change.modRevision };
    const { value, ...entry } = change.entry;
    bytesLeft -= value.length;
    const shown = bytesLeft >= 0 ? textOf(value) : { cut: true, valueBytes: value.length };
    return { kind: 'put', ...placeShown(entry), ...shown };
  });
}

function placeShown({ key, version, createRevision, modRevision, lease }: Omit<RegistryEntry, 'value'>): object {
  return { key, version, createRevision, modRevision, lease: lease ?? null };
}

function textOf(value: Uint8Array): { readonly value: string; readonly encoding?: 'hex' } {
  try {
    return { value: decoder.decode(value) };
  } catch {
    return { value: Array.from(value, (byte) => byte.toString(16).padStart(2, '0')).join(''), encoding: 'hex' };
  }
}
