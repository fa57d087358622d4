/**
 * A snapshot: last index and term, configuration, and the state in chunks of one size with a checksum. Does not
 * interpret the bytes.
 */
import type { GroupMember } from './state-machine.ts';
import { type ChunkedBytes, noChunks } from './state-bytes.ts';

export type Snapshot = {
  /** Names its parts in the store of this node; grows. */
  readonly number: number;
  /** The last entry that is in it, and its term. */
  readonly index: number;
  readonly term: number;
  readonly members: readonly GroupMember[];
  readonly state: ChunkedBytes;
};

export const noSnapshot: Snapshot = { number: 0, index: 0, term: 0, members: [], state: noChunks };
