/** What changes of a node's own keys mean to the node. What it wrote itself, or has seen before, is no news. */
import type { RegistryChange } from '../../base/registry.ts';
import { parseClusterKey } from '../keys.ts';
import type { AssignmentChange } from './machine-words.ts';
import { assignmentOf } from './picture.ts';
import { type StateRecord, readState } from './records.ts';

export type OwnNews = {
  /** Somebody else has written or deleted the registration, or the state says what only a look can tell. */
  readonly isDoubtful: boolean;
  readonly state: { readonly record: StateRecord; readonly modRevision: number } | undefined;
  readonly assignments: readonly AssignmentChange[];
};

export function newsIn(
  changes: readonly RegistryChange[],
  known: { readonly registration: number; readonly state: number },
): OwnNews {
  let isDoubtful = false;
  let state: OwnNews['state'];
  const assignments: AssignmentChange[] = [];
  for (const change of changes) {
    const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
    if (key?.kind === 'registration') isDoubtful ||= revisionOf(change) > known.registration;
    if (key?.kind === 'state' && revisionOf(change) > known.state) {
      const record = change.kind === 'put' ? readState(change.entry.value) : undefined;
      if (record === undefined || record.lost) isDoubtful = true;
      else state = { record, modRevision: revisionOf(change) };
    }
    if (key?.kind !== 'assignment') continue;
    if (change.kind === 'delete') assignments.push({ kind: 'released', pool: key.pool, container: key.container });
    else for (const assignment of assignmentOf(change.entry)) assignments.push({ kind: 'assigned', assignment });
  }
  return { isDoubtful, state, assignments };
}

function revisionOf(change: RegistryChange): number {
  return change.kind === 'put' ? change.entry.modRevision : change.modRevision;
}
