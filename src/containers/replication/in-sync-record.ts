/**
 * What an owner writes into the record about who has every acknowledged write, and how it is told. It changes nothing
 * else of the record, and keeps nothing itself.
 */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ContainerRecord, NodeInstance } from '../../placement/state/container-records.ts';
import type { ContainerChange } from '../contract.ts';
import type { ContainerTarget, RecordUpdate } from './record-update.ts';
import type { ReplicationEvent } from './copies-event.ts';
import type { ReplicationCounters } from './replication-types.ts';

export type IsrUpdatePorts = {
  readonly self: NodeInstance;
  readonly amend: (
    target: ContainerTarget,
    fence: ContainerRecord['fence'],
    change: RecordUpdate['change'],
    done: Done<ContainerRecord>,
  ) => void;
  readonly counters: ReplicationCounters;
  readonly tell: (event: ReplicationEvent) => void;
};

type OwnedChange = ContainerChange & { readonly record: ContainerRecord };

/** Who is to be named, decided by the record of that revision. */
type InSyncWish = { readonly inSync: readonly NodeInstance[]; readonly revision: number };

/** Ends as `amend` does. */
export function updateIsr(
  ports: IsrUpdatePorts,
  change: OwnedChange,
  wish: InSyncWish,
  done: Done<ContainerRecord>,
): void {
  let before: readonly NodeInstance[] = [];
  const next = (record: ContainerRecord, revision: number): ContainerRecord => {
    before = record.inSync;
    const stays = (holder: NodeInstance): readonly NodeInstance[] => {
      if (holder.node === ports.self.node) return [holder];
      // Whom the leader has taken out of the copies meanwhile is not named again.
      if (!record.copies.includes(holder.node)) return [];
      // It may have been taken out and meant again: then it has to prove once more what it has.
      return revision === wish.revision ? [holder] : before.filter(({ node }) => node === holder.node);
    };
    return { ...record, inSync: wish.inSync.flatMap(stays) };
  };
  ports.amend(change, change.record.fence, next, (outcome) => {
    if (outcome.ok) tellInSync(ports, change, before, outcome.value.inSync);
    done(outcome);
  });
}

function tellInSync(
  { self, counters, tell }: IsrUpdatePorts,
  { pool, container }: OwnedChange,
  before: readonly NodeInstance[],
  after: readonly NodeInstance[],
): void {
  const others = (holders: readonly NodeInstance[]): NodeId[] =>
    holders.map(({ node }) => node).filter((node) => node !== self.node);
  const [was, nodes] = [others(before), others(after)];
  const left = was.filter((node) => !nodes.includes(node));
  const joined = nodes.filter((node) => !was.includes(node));
  counters.left += left.length;
  counters.joined += joined.length;
  if (left.length + joined.length > 0) tell({ kind: 'inSync', pool: pool.name, container, nodes, left });
}

/** Takes ourselves out, if others have the state. True when it is done. */
export function leaveIsr(ports: IsrUpdatePorts, change: OwnedChange, done: (isOut: boolean) => void): void {
  const isOther = ({ node }: NodeInstance): boolean => node !== ports.self.node;
  if (!change.record.inSync.some(isOther)) return done(false);
  const without = (now: ContainerRecord): ContainerRecord | undefined =>
    now.inSync.some(isOther) ? { ...now, inSync: now.inSync.filter(isOther) } : undefined;
  ports.amend(change, change.record.fence, without, (outcome) => {
    done(outcome.ok && outcome.value.inSync.every(isOther));
  });
}
