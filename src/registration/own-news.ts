/** What changes of a node's own keys mean to the node. What it wrote itself, or has seen before, is no news. */
import type { RegistryChange } from '../base/registry.ts';
import { parseClusterKey } from '../registry/cluster-keys.ts';
import type { AssignmentChange } from './registration-types.ts';
import { assignmentOf } from './cluster-snapshot.ts';
import { type NodeStateRecord, readNodeState } from './registration-records.ts';

export type OwnKeyChanges = {
  /** Somebody else has written or deleted the registration, or the state says what only a look can tell. */
  readonly needsReread: boolean;
  readonly state: { readonly record: NodeStateRecord; readonly modRevision: number } | undefined;
  readonly assignments: readonly AssignmentChange[];
};

export function ownKeyChanges(
  changes: readonly RegistryChange[],
  known: { readonly registration: number; readonly state: number },
): OwnKeyChanges {
  let needsReread = false;
  let state: OwnKeyChanges['state'];
  const assignments: AssignmentChange[] = [];
  for (const change of changes) {
    const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
    if (key?.kind === 'registration') needsReread ||= revisionOf(change) > known.registration;
    if (key?.kind === 'state' && revisionOf(change) > known.state) {
      const record = change.kind === 'put' ? readNodeState(change.entry.value) : undefined;
      if (record === undefined || record.lost) needsReread = true;
      else state = { record, modRevision: revisionOf(change) };
    }
    if (key?.kind !== 'assignment') continue;
    if (change.kind === 'delete') assignments.push({ kind: 'released', pool: key.pool, container: key.container });
    else for (const assignment of assignmentOf(change.entry)) assignments.push({ kind: 'assigned', assignment });
  }
  return { needsReread, state, assignments };
}

function revisionOf(change: RegistryChange): number {
  return change.kind === 'put' ? change.entry.modRevision : change.modRevision;
}
