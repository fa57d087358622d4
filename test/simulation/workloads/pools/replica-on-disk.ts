/** Reads from a simulated disk whether the active replica of a container has executed a call. For checkers only. */
import { replicaMetaKey, readReplicaMeta, slotPrefix } from '../../../../src/containers/replication/replica-layout.ts';
import { stateRow } from '../../../../src/containers/hosting/state/state-rows.ts';
import type { SimulatedDisk } from '../../../../src/simulation/engine/simulated-disk.ts';
import { executedPrefix } from './cell-module.ts';

/** The store in which nodes keep the state of containers. */
const storeName = 'containers';

/** A predicate: has the active replica on that disk executed a write? */
export function replicaHasCall(disk: SimulatedDisk, major: number, container: number): (call: string) => boolean {
  const store = disk.store(storeName);
  const bytes = store.peek(replicaMetaKey(major, container));
  const slot = bytes === undefined ? undefined : readReplicaMeta(bytes)?.slot;
  if (slot === undefined) return () => false;
  const prefix = slotPrefix(major, container, slot) + stateRow(executedPrefix);
  return (call) => store.peek(prefix + call) !== undefined;
}
