/**
 * Events that membership reports to the node, with their evidence: accusers, and members that found the port closed.
 */
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
  /** The reason in one clause, for operators. */
  readonly why: string;
  /** Members that got no reply from it, by name, or by id if the name is unknown. */
  readonly accusers: readonly string[];
  /** Members to which its host refused a connection, by name or id. */
  readonly refusedTo: readonly string[];
  /** Enough members found the port closed: the process of this generation has ended. */
  readonly portIsClosed: boolean;
};

export const noEvidence = { accusers: [], refusedTo: [], portIsClosed: false } as const;
