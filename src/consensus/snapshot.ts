/** The state of a replica after one entry, with what is needed to go on from there. */
import { crc32 } from './checksum.ts';
import type { GroupMember } from './replica.ts';

export type Snapshot = {
  /** Names its parts in the store of this node; grows. */
  readonly number: number;
  /** The last entry that is in it, and its term. */
  readonly index: number;
  readonly term: number;
  readonly members: readonly GroupMember[];
  readonly state: Uint8Array;
  readonly checksum: number;
};

export const noSnapshot: Snapshot = snapshotOf(0, { index: 0, term: 0 }, [], new Uint8Array(0));

export function snapshotOf(
  number: number,
  { index, term }: { readonly index: number; readonly term: number },
  members: readonly GroupMember[],
  state: Uint8Array,
): Snapshot {
  return { number, index, term, members, state, checksum: crc32(state) };
}
