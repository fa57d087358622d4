/**
 * Decides from the record and the stored replica with which state an owner starts. An empty container never replaces
 * one that had state.
 */
import { RemusterError } from '../../base/errors.ts';
import type { ContainerRecord, NodeInstance, PoolDurability } from '../../placement/state/container-records.ts';
import type { ReplicaMeta } from './replica-layout.ts';

export type StoredReplica = {
  readonly meta: ReplicaMeta;
  readonly isCorrupt: boolean;
  readonly usedFence: bigint | undefined;
};

/** The meta row with which the owner starts, or why it cannot start. */
export function recoveredMeta(
  self: NodeInstance,
  durability: PoolDurability,
  record: ContainerRecord,
  stored: StoredReplica,
): ReplicaMeta | RemusterError {
  const { fence, owner, opening, phase } = record;
  const { meta } = stored;
  if (owner?.node !== self.node || owner.generation !== self.generation) {
    return new RemusterError('FENCED', 'another node owns the container');
  }
  if (meta.maxFence > fence) return new RemusterError('FENCED', 'a later owner has written here');
  if (stored.usedFence === fence) {
    return new RemusterError('FENCED', 'the container was lost here under this fence: it needs a higher one');
  }
  const hasStarted = meta.slot?.fence === fence || meta.position.fence === fence;
  // A stale record may still say 'init' after an owner with this fence has acknowledged commits.
  if (opening === 'init' && phase === 'opening' && !hasStarted) {
    return { slot: { fence, snapshot: 0 }, position: { fence, seq: 0 }, maxFence: fence };
  }
  if (stored.isCorrupt) return new RemusterError('STORE_CORRUPT', 'the meta row of the replica is damaged');
  if (meta.slot === undefined || !isInIsr(self, durability, record)) {
    return new RemusterError('STORE_CORRUPT', 'the state of the container is not on this node');
  }
  return { ...meta, maxFence: fence };
}

/** State in memory ends with the process, so only the same generation of the node still has it. */
function isInIsr({ node, generation }: NodeInstance, durability: PoolDurability, { inSync }: ContainerRecord): boolean {
  return inSync.some((other) => other.node === node && (durability !== 'memory' || other.generation === generation));
}
