/**
 * The state an owner starts from, decided from record and disk. An empty container never replaces one that had state.
 */
import { RemusterError } from '../../base/errors.ts';
import type { PoolDurability, NodeInstance } from '../../placement/state/container-records.ts';
import type { ContainerRecord } from '../../placement/state/container-records.ts';
import type { ReplicaMeta } from './replica-layout.ts';

export type StoredReplica = {
  readonly meta: ReplicaMeta;
  readonly isCorrupt: boolean;
  readonly usedFence: bigint | undefined;
};

/** The meta row under which it begins, or why it cannot. */
export function recoveredMeta(
  self: NodeInstance,
  durability: PoolDurability,
  record: ContainerRecord,
  found: StoredReplica,
): ReplicaMeta | RemusterError {
  const { fence, owner, opening, phase } = record;
  const { meta } = found;
  if (owner?.node !== self.node || owner.generation !== self.generation) {
    return new RemusterError('FENCED', 'another node owns it');
  }
  if (meta.maxFence > fence) return new RemusterError('FENCED', 'a later owner was here');
  if (found.usedFence === fence) {
    return new RemusterError('FENCED', 'it was lost here under this fence, and needs another');
  }
  const hasBegun = meta.slot?.fence === fence || meta.position.fence === fence;
  // Once begun under this fence something may have been acknowledged, whatever an older record says.
  if (opening === 'init' && phase === 'opening' && !hasBegun) {
    return { slot: { fence, snapshot: 0 }, position: { fence, seq: 0 }, maxFence: fence };
  }
  if (found.isCorrupt) return new RemusterError('STORE_CORRUPT', 'what is known of its state is damaged');
  if (meta.slot === undefined || !isNamed(self, durability, record)) {
    return new RemusterError('STORE_CORRUPT', 'its state is not here');
  }
  return { ...meta, maxFence: fence };
}

/** What is only in memory ends with the life of its node. */
function isNamed({ node, generation }: NodeInstance, durability: PoolDurability, { inSync }: ContainerRecord): boolean {
  return inSync.some((one) => one.node === node && (durability !== 'memory' || one.generation === generation));
}
