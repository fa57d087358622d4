/**
 * The manager group to which the state on this disk belongs. A registry of another group does not list that state, so
 * nothing here is opened, replaced or dropped because of it: a wrong `--join`, or managers that lost their disks, would
 * destroy acknowledged writes. A disk without state joins any group.
 */
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { Clock, RowStore } from '../../base/ports.ts';
import type { Registry, RegistryEpoch } from '../../base/registry.ts';
import { groupIdOf } from '../../base/registry-epoch.ts';
import { allReplicaMetas, readReplicaMeta } from '../../containers/replication/replica-layout.ts';

const groupRow = 'copies/group-id';
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

type RecordRegistry = Pick<Registry, 'range' | 'transact'>;

/**
 * The registry for owners that change the records of their containers. The reply of another group is an error: it has no
 * record of a container that it does not know, and an owner would take it for deleted. `ownGroup` is undefined while this
 * node follows no registry.
 */
export function registryOfGroup(
  registry: RecordRegistry,
  clock: Clock,
  ownGroup: () => string | undefined,
): RecordRegistry {
  const onReply =
    <T extends { readonly epoch: RegistryEpoch }>(done: Done<T>, effect: 'no' | 'maybe') =>
    (outcome: Outcome<T>): void => {
      if (!outcome.ok || groupIdOf(outcome.value.epoch) === ownGroup()) return done(outcome);
      done(failure('NO_QUORUM', 'the reply is from the registry of another group of managers', effect));
    };
  const isReady = (done: Done<never>): boolean => {
    if (ownGroup() !== undefined) return true;
    clock.schedule(0, () => done(failure('NO_QUORUM', 'this node follows no registry at the moment', 'no')));
    return false;
  };
  return {
    range: (range, options, done) => isReady(done) && registry.range(range, options, onReply(done, 'no')),
    transact: (transaction, options, done) =>
      isReady(done) && registry.transact(transaction, options, onReply(done, 'maybe')),
  };
}

function writeGroup(store: ReplicaRows, groupId: string, done: Done<void>): void {
  store.write([{ key: groupRow, value: new TextEncoder().encode(groupId) }], done);
}

/** Replicas with state; a row without state only remembers a fence. */
function countStates(store: ReplicaRows, from: string, sum: number, done: Done<number>): void {
  store.read({ from, to: allReplicaMetas.to, limit: pageRows }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const rows = outcome.value;
    const states = rows.filter(({ value }) => mayHaveState(value));
    const last = rows.at(-1);
    if (rows.length < pageRows || last === undefined) done(success(sum + states.length));
    else countStates(store, `${last.key}\0`, sum + states.length, done);
  });
}

/** Bytes that this version cannot read may stand for state, too. */
function mayHaveState(value: Uint8Array): boolean {
  const meta = readReplicaMeta(value);
  return meta === undefined || meta.slot !== undefined;
}

function refusalText(known: string, found: string, states: number): string {
  return (
    `this disk has state of ${states} containers of the registry ${known}, and the registry here is ${found}: bring back ` +
    `the managers (or the etcd cluster) of ${known}, or restart this node with an empty data directory`
  );
}
