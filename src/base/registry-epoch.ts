/** Epochs of a registry: made of the id of the group that agreed on the data and the number of restores since then. */
import type { RegistryEpoch } from './registry.ts';

export const groupIdBytes = 8;
const pattern = /^(?:[0-9a-f]{16})?\.\d{1,9}$/;

export function groupIdFrom(random: Uint8Array): string {
  return Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The group id is empty until the first leader of a new group has agreed on one. */
export function registryEpoch(group: string, restores: number): RegistryEpoch {
  return `${group}.${restores}` as RegistryEpoch;
}

export function isRegistryEpoch(text: string): text is RegistryEpoch {
  return pattern.test(text);
}

/**
 * `older` and `newer` compare restores of one group. A replica without a group id has not applied any entry yet, so
 * every epoch is newer than its own.
 */
export function compareEpochs(epoch: RegistryEpoch, own: RegistryEpoch): 'same' | 'older' | 'newer' | 'foreign' {
  if (epoch === own) return 'same';
  const [group, restores] = partsOf(epoch);
  const [ownGroup, ownRestores] = partsOf(own);
  if (ownGroup === '') return 'newer';
  if (group !== ownGroup) return 'foreign';
  return restores < ownRestores ? 'older' : 'newer';
}

/** The id of the group; empty before the first leader has chosen one. */
export function groupIdOf(epoch: RegistryEpoch): string {
  return partsOf(epoch)[0];
}

function partsOf(epoch: RegistryEpoch): readonly [group: string, restores: number] {
  const dot = epoch.lastIndexOf('.');
  return [epoch.slice(0, dot), Number(epoch.slice(dot + 1))];
}
