/**
 * Row layout of a replica: one meta row with the valid slot, the position and the highest fence, and the rows of each
 * slot. A snapshot goes live by the change of that one row.
 *
 *   copies/m/{pool}/{container}                    meta row
 *   copies/s/{pool}/{container}/{slot}/{key}       one entry of the state
 *
 * A slot is named by fence and number of the snapshot that created it, so no name is used twice. Numbers in keys have
 * base 36.
 */
import type { Fence } from '../../base/fence.ts';
import type { StoreWrite } from '../../base/ports.ts';

/** Fence and number of the last commit; a replica that has it has every commit before it. */
export type CommitPosition = { readonly fence: Fence; readonly seq: number };

/** `snapshot` 0 is the slot of an owner that started empty. */
export type StateSlot = { readonly fence: Fence; readonly snapshot: number };

export type ReplicaMeta = {
  /** Undefined: this node has no state of the container. */
  readonly slot: StateSlot | undefined;
  readonly position: CommitPosition;
  /** Highest fence of any owner seen here; lower ones are refused, so it is durable before a reply to that owner. */
  readonly maxFence: Fence;
};

export const noFence = 0n as Fence;
export const emptyMeta: ReplicaMeta = { slot: undefined, position: { fence: noFence, seq: 0 }, maxFence: noFence };

const metaArea = 'copies/m/';
/** The character after `/`. */
const afterSlash = '0';
const metaBytes = 42;
const metaVersion = 1;

export const allReplicaMetas = { from: metaArea, to: `copies/m${afterSlash}` } as const;

export function replicaMetaKey(pool: number, container: number): string {
  return `${metaArea}${pool.toString(36)}/${container.toString(36)}`;
}

export function parseReplicaMetaKey(key: string): { readonly pool: number; readonly container: number } | undefined {
  const [pool, container, ...more] = key.slice(metaArea.length).split('/');
  if (!key.startsWith(metaArea) || container === undefined || more.length > 0) return undefined;
  const name = { pool: Number.parseInt(pool as string, 36), container: Number.parseInt(container, 36) };
  return Number.isSafeInteger(name.pool) && Number.isSafeInteger(name.container) ? name : undefined;
}

/** The prefix of all rows of the container, without the trailing slash. */
function containerPrefix(pool: number, container: number): string {
  return `copies/s/${pool.toString(36)}/${container.toString(36)}`;
}

export function replicaRows(pool: number, container: number): { readonly from: string; readonly to: string } {
  const prefix = containerPrefix(pool, container);
  return { from: `${prefix}/`, to: `${prefix}${afterSlash}` };
}

function slotName({ fence, snapshot }: StateSlot): string {
  return `${fence.toString(36)}.${snapshot.toString(36)}`;
}

/** The prefix of each row of the slot, with the trailing slash. */
export function slotPrefix(pool: number, container: number, slot: StateSlot): string {
  return `${containerPrefix(pool, container)}/${slotName(slot)}/`;
}

export function slotRows(prefix: string): { readonly from: string; readonly to: string } {
  return { from: prefix, to: `${prefix.slice(0, -1)}${afterSlash}` };
}

/** The slot prefix of a row of state, with the trailing slash. */
export function prefixOfRow(key: string): string {
  let end = 'copies/s/'.length;
  for (let part = 0; part < 3; part++) end = key.indexOf('/', end) + 1;
  return key.slice(0, end);
}

export function isSameSlot(a: StateSlot | undefined, b: StateSlot | undefined): boolean {
  return a?.fence === b?.fence && a?.snapshot === b?.snapshot;
}

/** A delayed snapshot must not overwrite one that was started after it. */
export function isLaterSlot(slot: StateSlot, than: StateSlot | undefined): boolean {
  if (than === undefined || slot.fence > than.fence) return true;
  return slot.fence === than.fence && slot.snapshot > than.snapshot;
}

export function replicaMetaWrite(pool: number, container: number, meta: ReplicaMeta): StoreWrite {
  return { key: replicaMetaKey(pool, container), value: encodeMeta(meta) };
}

/** version (1) | has a slot (1) | highest fence, slot fence, snapshot, position fence, seq (8 each) */
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

/** Undefined if this version cannot have written the bytes. */
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
