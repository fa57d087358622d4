/**
 * Which group of managers the state on this disk belongs to. A registry of another group knows nothing of that state:
 * by its word nothing here is opened, replaced or dropped, because a wrong `--join`, or managers that lost their disks,
 * would destroy acknowledged writes. Without state the disk joins any group.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { RowStore } from '../../base/ports.ts';
import { allReplicaMetas, readReplicaMeta } from '../../containers/replication/replica-layout.ts';

const groupRow = 'copies/group';
const pageRows = 500;

type ReplicaRows = Pick<RowStore, 'read' | 'write'>;

/** Ends with PRECONDITION if this disk has state of another group; nothing is changed then. */
export function admitGroup(store: ReplicaRows, groupId: string, done: Done<void>): void {
  store.read({ from: groupRow, to: `${groupRow}\0`, limit: 1 }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const [row] = outcome.value;
    const known = row === undefined ? undefined : new TextDecoder().decode(row.value);
    if (known === groupId) return done(success(undefined));
    if (known === undefined) return writeGroup(store, groupId, done);
    countStates(store, allReplicaMetas.from, 0, (counted) => {
      if (!counted.ok) return done(counted);
      if (counted.value === 0) return writeGroup(store, groupId, done);
      done(failure('PRECONDITION', refusalText(known, groupId, counted.value), 'no'));
    });
  });
}

function writeGroup(store: ReplicaRows, groupId: string, done: Done<void>): void {
  store.write([{ key: groupRow, value: new TextEncoder().encode(groupId) }], done);
}

/** Replicas with state; a row without state only remembers a fence. */
function countStates(store: ReplicaRows, from: string, sum: number, done: Done<number>): void {
  store.read({ from, to: allReplicaMetas.to, limit: pageRows }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const rows = outcome.value;
    // Bytes that this version cannot read may be state, too.
    const states = rows.filter(({ value }) => readReplicaMeta(value)?.slot !== undefined || isUnreadable(value));
    const last = rows.at(-1);
    if (rows.length < pageRows || last === undefined) done(success(sum + states.length));
    else countStates(store, `${last.key}\0`, sum + states.length, done);
  });
}

function isUnreadable(meta: Uint8Array): boolean {
  return readReplicaMeta(meta) === undefined;
}

function refusalText(known: string, found: string, states: number): string {
  return (
    `this disk has state of ${states} containers of the manager group ${known}, and the managers here are the group ` +
    `${found}: start the managers of ${known} on their disks, or restart this node with an empty data directory`
  );
}
