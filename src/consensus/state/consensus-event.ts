/** What a group tells the rest of the node, for its event log: that something changed, and why. */
import type { NodeId } from '../../base/ids.ts';

export const consensusEventTypes = [
  'leader.elected',
  'leader.lost',
  'group.changed',
  'snapshot.taken',
  'snapshot.installed',
  'leader.flapping',
] as const;

export type ConsensusEvent = {
  readonly type: (typeof consensusEventTypes)[number];
  readonly group: string;
  readonly term: number;
  /** Where in the log, as far as it has a place there. */
  readonly index: number;
  /** The leader, or the one who led until now; nobody for what concerns no leader. */
  readonly leader: NodeId | undefined;
  /** For people: what happened, in one sentence. */
  readonly why: string;
};
