/**
 * With what an owner begins, decided from the record and from what lies on this node's disk. A container that is new
 * begins with nothing, in a slot of its own; everything else begins with what is here, and it must be here: an empty
 * container is never served in the place of one that had state.
 */
import { RemusterError } from '../../base/errors.ts';
import type { Durability, Holder } from '../../registry/placement/records.ts';
import type { ContainerRecord } from '../../registry/placement/records.ts';
import type { Meta } from './layout.ts';

export type Found = {
  readonly meta: Meta;
  readonly isCorrupt: boolean;
  readonly spentFence: bigint | undefined;
};

/** The meta row under which it begins, or why it cannot. */
export function beginningOf(
  self: Holder,
  durability: Durability,
  record: ContainerRecord,
  found: Found,
): Meta | RemusterError {
  const { fence, owner, opening, phase } = record;
  const { meta } = found;
  if (owner?.node !== self.node || owner.generation !== self.generation) {
    return new RemusterError('FENCED', 'another node owns it');
  }
  if (meta.seen > fence) return new RemusterError('FENCED', 'a later owner was here');
  if (found.spentFence === fence) {
    return new RemusterError('FENCED', 'it was lost here under this fence, and needs another');
  }
  const hasBegun = meta.slot?.fence === fence || meta.position.fence === fence;
  // Once begun under this fence something may have been acknowledged, whatever an older record says.
  if (opening === 'init' && phase === 'opening' && !hasBegun) {
    return { slot: { fence, snapshot: 0 }, position: { fence, seq: 0 }, seen: fence };
  }
  if (found.isCorrupt) return new RemusterError('STORE_CORRUPT', 'what is known of its state is damaged');
  if (meta.slot === undefined || !isNamed(self, durability, record)) {
    return new RemusterError('STORE_CORRUPT', 'its state is not here');
  }
  return { ...meta, seen: fence };
}

/** What is only in memory ends with the life of its node. */
function isNamed({ node, generation }: Holder, durability: Durability, { inSync }: ContainerRecord): boolean {
  return inSync.some((one) => one.node === node && (durability !== 'memory' || one.generation === generation));
}
