/**
 * One statement about one member (SWIM calls it an update), and the total order of statements, equal at every node, so
 * that all views converge whatever the order of arrival. Keeps no state.
 *
 *   a higher generation beats a lower one;
 *   in one generation a higher incarnation beats a lower one, and only the member itself raises it;
 *   in one incarnation  alive < suspect < dead < left.
 *
 * So a suspect refutes by raising its incarnation, and a dead member returns only under a higher incarnation or
 * generation.
 */
import type { NodeId } from '../../base/ids.ts';
import type { NodeEntry } from '../../messages/node-entry.ts';

export type MemberState = 'alive' | 'suspect' | 'dead' | 'left';

/** `join` is an alive claim with the highest gossip priority, because no member has the entry yet. */
export type ClaimKind = 'join' | 'alive' | 'suspect' | 'dead' | 'left';

export type Claim = {
  readonly kind: ClaimKind;
  readonly id: NodeId;
  readonly generation: number;
  readonly incarnation: number;
  /** The member that made the claim from its own knowledge, not one that relayed it. */
  readonly by: NodeId;
  /** The host of the member refused a connection of the accuser or of its helper: the port is closed. */
  readonly refused: boolean;
  /** Address and roles of the member; present in every join and alive claim. */
  readonly entry: NodeEntry | undefined;
};

/** The last known generation, incarnation and state of one member. */
export type MemberStatus = { readonly generation: number; readonly incarnation: number; readonly state: MemberState };

/** A claim that raises an incarnation by more is ignored: the member could not refute a huge one (Y26). */
export const incarnationJumpMax = 1_000_000;

const rank: Readonly<Record<MemberState, number>> = { alive: 0, suspect: 1, dead: 2, left: 3 };

export function claimedState(kind: ClaimKind): MemberState {
  return kind === 'join' ? 'alive' : kind;
}

/** True when the claim is newer than what is known: apply it and gossip it. */
export function supersedes(claim: Claim, known: MemberStatus): boolean {
  if (claim.generation !== known.generation) return claim.generation > known.generation;
  if (claim.incarnation !== known.incarnation) {
    return claim.incarnation > known.incarnation && claim.incarnation - known.incarnation <= incarnationJumpMax;
  }
  return rank[claimedState(claim.kind)] > rank[known.state];
}

/** True when the claim repeats what is known: for a suspicion, one more accuser. */
export function confirms(claim: Claim, known: MemberStatus): boolean {
  return (
    claim.generation === known.generation &&
    claim.incarnation === known.incarnation &&
    claimedState(claim.kind) === known.state
  );
}
