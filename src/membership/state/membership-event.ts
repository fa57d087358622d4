/** Events that membership reports to the node, with their evidence: who accused, who saw the port closed. */
import type { NodeId } from '../../base/ids.ts';

export const membershipEventTypes = [
  'member.alive',
  'member.suspect',
  'member.dead',
  'member.left',
  'member.stuck',
  'member.unstuck',
  'member.conflict',
  'member.refuted',
  'gossip.overflow',
  'self.paused',
  'self.withdrew',
  'self.returned',
] as const;

export type MembershipEventType = (typeof membershipEventTypes)[number];

export type MembershipEvent = {
  readonly type: MembershipEventType;
  readonly id: NodeId;
  readonly name: string;
  readonly generation: number;
  readonly incarnation: number;
  /** For people: what happened, in one sentence. */
  readonly why: string;
  /** By name, as far as the name is known: who found no life, and to whom the host said that the port is closed. */
  readonly accusers: readonly string[];
  readonly refusedTo: readonly string[];
  /** Enough of them were, found by ourselves or by whoever told us: the process of that life is gone. */
  readonly portIsClosed: boolean;
};

export const noEvidence = { accusers: [], refusedTo: [], portIsClosed: false } as const;
