/**
 * Row layout on disk: one meta row naming the valid slot, position and highest fence, and rows per slot. A snapshot
 * goes live by changing that one row.
 *
 *   copies/m/{pool}/{container}                    meta: slot, position, highest fence seen
 *   copies/s/{pool}/{container}/{slot}/{key}       one entry of the state
 *
 * Slots are named after the fence and the number of the snapshot that made them, so no name is ever used twice. Numbers
 * are digits to the base of 36.
 */
import type { Fence } from '../../base/fence.ts';
import type { StoreWrite } from '../../base/ports.ts';

/** The last commit of a state: whoever has the commit with this fence and number has all before it. */
export type CommitPosition = { readonly fence: Fence; readonly seq: number };

/** `snapshot` 0 is what an owner began with nothing. */
export type StateSlot = { readonly fence: Fence; readonly snapshot: number };

export type ReplicaMeta = {
  /** Undefined: no state is held here. */
  readonly slot: StateSlot | undefined;
  readonly position: CommitPosition;
  /** Of all owners that were heard here. Lower ones are refused, so it is durable before anything is answered under it. */
  readonly maxFence: Fence;
};

export const noFence = 0n as Fence;
export const emptyMeta: ReplicaMeta = { slot: undefined, position: { fence: noFence, seq: 0 }, maxFence: noFence };

const metaArea = 'copies/m/';
/** The character behind `/`. */
const behindSlash = '0';
const metaBytes = 42;
const metaVersion = 1;

export const allReplicaMetas = { from: metaArea, to: `copies/m${behindSlash}` } as const;

export function replicaMetaKey(pool: number, container: number): string {
  return `${metaArea}${pool.toString(36)}/${container.toString(36)}`;
}

export function parseReplicaMetaKey(key: string): { readonly pool: number; readonly container: number } | undefined {
  const [pool, container, ...more] = key.slice(metaArea.length).split('/');
  if (!key.startsWith(metaArea) || container === undefined || more.length > 0) return undefined;
  const name = { pool: Number.parseInt(pool as string, 36), container: Number.parseInt(container, 36) };
  return Number.isSafeInteger(name.pool) && Number.isSafeInteger(name.container) ? name : undefined;
}

/** Before all rows of the container, without the slash at the end. */
function containerPrefix(pool: number, container: number): string {
  return `copies/s/${pool.toString(36)}/${container.toString(36)}`;
}

export function replicaRows(pool: number, container: number): { readonly from: string; readonly to: string } {
  const prefix = containerPrefix(pool, container);
  return { from: `${prefix}/`, to: `${prefix}${behindSlash}` };
}

function slotName({ fence, snapshot }: StateSlot): string {
  return `${fence.toString(36)}.${snapshot.toString(36)}`;
}

/** What stands before each key of the slot. */
export function slotPrefix(pool: number, container: number, slot: StateSlot): string {
  return `${containerPrefix(pool, container)}/${slotName(slot)}/`;
}

export function slotRows(prefix: string): { readonly from: string; readonly to: string } {
  return { from: prefix, to: `${prefix.slice(0, -1)}${behindSlash}` };
}

/** Of a row of state, up to the slash before its key. */
export function prefixOfRow(key: string): string {
  let end = 'copies/s/'.length;
  for (let part = 0; part < 3; part++) end = key.indexOf('/', end) + 1;
  return key.slice(0, end);
}

export function isSameSlot(a: StateSlot | undefined, b: StateSlot | undefined): boolean {
  return a?.fence === b?.fence && a?.snapshot === b?.snapshot;
}

/** A snapshot that is told late must not be written over one that was begun after it. */
export function isLaterSlot(slot: StateSlot, than: StateSlot | undefined): boolean {
  if (than === undefined || slot.fence > than.fence) return true;
  return slot.fence === than.fence && slot.snapshot > than.snapshot;
}

export function replicaMetaWrite(pool: number, container: number, meta: ReplicaMeta): StoreWrite {
  return { key: replicaMetaKey(pool, container), value: encodeMeta(meta) };
}

/** version (1) | has a slot (1) | seen, slot fence, snapshot, position fence, seq (8 each) */
function encodeMeta({ slot, position, maxFence }: ReplicaMeta): Uint8Array {
  const bytes = new Uint8Array(metaBytes);
  const view = new DataView(bytes.buffer);
  bytes[0] = metaVersion;
  bytes[1] = slot === undefined ? 0 : 1;
  view.setBigUint64(2, maxFence);
  view.setBigUint64(10, slot?.fence ?? noFence);
  view.setFloat64(18, slot?.snapshot ?? 0);
  view.setBigUint64(26, position.fence);
  view.setFloat64(34, position.seq);
  return bytes;
}

/** Undefined for what this version has not written. */
export function readReplicaMeta(bytes: Uint8Array): ReplicaMeta | undefined {
  if (bytes.length !== metaBytes || bytes[0] !== metaVersion) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const slot = { fence: view.getBigUint64(10) as Fence, snapshot: view.getFloat64(18) };
  return {
    slot: bytes[1] === 1 ? slot : undefined,
    position: { fence: view.getBigUint64(26) as Fence, seq: view.getFloat64(34) },
    maxFence: view.getBigUint64(2) as Fence,
  };
}
