/** What a node hears from the leader when it asks for its serving lease. */
import { type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ServingLeases } from './serving-leases.ts';

/** `revision`: what the node has to have seen of the address table before it serves anything under this lease. */
export type ServingLeaseGrant = { readonly leaseMs: number; readonly revision: number };

/** A life of a node, and how far its address table has got. */
export type ServingLeaseRequest = { readonly node: NodeId; readonly generation: number; readonly seenRevision: number };

export function grantServingLease(
  leases: ServingLeases,
  nowMs: number,
  { node, generation, seenRevision }: ServingLeaseRequest,
): Outcome<ServingLeaseGrant> {
  switch (leases.renew(nowMs, node, generation, seenRevision)) {
    case 'superseded':
      return failure('FENCED', 'that life of the node is known to have ended', 'no');
    case 'disputed':
      return failure('PRECONDITION', 'what the node had is being given to others', 'no');
    case 'behind':
      return failure('PRECONDITION', 'the address table of the node is behind', 'no');
    case 'full':
      return failure('CAPACITY', 'too many nodes ask for the serving lease');
    case 'granted':
      return success({ leaseMs: leases.leaseMs, revision: leases.requiredRevision(node) });
    default:
      return failure('INTERNAL');
  }
}
