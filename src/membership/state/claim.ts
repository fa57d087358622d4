/**
 * One statement about one member (SWIM calls it an update), and the total order of statements: generation, incarnation,
 * then alive < suspect < dead < left. Keeps no state.
 *
 * Claims about the same member are ordered, the same way at every node and whatever the order of arrival, so that all
 * end with the same view:
 *
 *   a later life (generation) beats an earlier one;
 *   in the same life a higher incarnation beats a lower one, and only the member itself may raise it;
 *   in the same incarnation  alive < suspect < dead < left.
 *
 * So an accused member clears itself by raising its incarnation, and a dead one returns only under a higher incarnation
 * or in a new life. This file owns that order and nothing else; it keeps no state.
 */
import type { NodeId } from '../../base/ids.ts';
import type { NodeEntry } from '../../messages/node-entry.ts';

export type MemberState = 'alive' | 'suspect' | 'dead' | 'left';

/** `join` is an alive claim that is told more urgently, because it is news to everybody. */
export type ClaimKind = 'join' | 'alive' | 'suspect' | 'dead' | 'left';

export type Claim = {
  readonly kind: ClaimKind;
  readonly id: NodeId;
  readonly generation: number;
  readonly incarnation: number;
  /** Who says so of its own knowledge, however many have passed it on. */
  readonly by: NodeId;
  /** The accuser, or a helper it asked, was positively refused by the member's host: the port is closed. */
  readonly refused: boolean;
  /** Where to find it: in every join and alive claim. */
  readonly entry: NodeEntry | undefined;
};

/** What is known of one life of one member. */
export type MemberStatus = { readonly generation: number; readonly incarnation: number; readonly state: MemberState };

/** An incarnation may only grow by small steps: a huge one could never be refuted (Y26). */
export const incarnationJumpMax = 1_000_000;

const rank: Readonly<Record<MemberState, number>> = { alive: 0, suspect: 1, dead: 2, left: 3 };

export function claimedState(kind: ClaimKind): MemberState {
  return kind === 'join' ? 'alive' : kind;
}

/** True when the claim is news: it must be taken over and passed on. */
export function supersedes(claim: Claim, known: MemberStatus): boolean {
  if (claim.generation !== known.generation) return claim.generation > known.generation;
  if (claim.incarnation !== known.incarnation) {
    return claim.incarnation > known.incarnation && claim.incarnation - known.incarnation <= incarnationJumpMax;
  }
  return rank[claimedState(claim.kind)] > rank[known.state];
}

/** True when the claim says again what is known: for a suspicion, one more accuser. */
export function confirms(claim: Claim, known: MemberStatus): boolean {
  return (
    claim.generation === known.generation &&
    claim.incarnation === known.incarnation &&
    claimedState(claim.kind) === known.state
  );
}
