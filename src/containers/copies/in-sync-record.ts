/**
 * What an owner writes into the record about who has every acknowledged write, and how it is told. It changes nothing
 * else of the record, and keeps nothing itself.
 */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ContainerRecord, Holder } from '../../registry/placement/records.ts';
import type { ContainerChange } from '../contract.ts';
import type { AmendTarget, Amendment } from './amender.ts';
import type { CopiesEvent } from './copies-event.ts';
import type { CopiesCounters } from './copies-options.ts';

export type InSyncPorts = {
  readonly self: Holder;
  readonly amend: (
    target: AmendTarget,
    fence: ContainerRecord['fence'],
    change: Amendment['change'],
    done: Done<ContainerRecord>,
  ) => void;
  readonly counters: CopiesCounters;
  readonly tell: (event: CopiesEvent) => void;
};

type OwnedChange = ContainerChange & { readonly record: ContainerRecord };

/** Who is to be named, decided by the record of that revision. */
type InSyncWish = { readonly inSync: readonly Holder[]; readonly revision: number };

/** Ends as `amend` does. */
export function writeInSync(
  ports: InSyncPorts,
  change: OwnedChange,
  wish: InSyncWish,
  done: Done<ContainerRecord>,
): void {
  let before: readonly Holder[] = [];
  const next = (record: ContainerRecord, revision: number): ContainerRecord => {
    before = record.inSync;
    const stays = (holder: Holder): readonly Holder[] => {
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
  { self, counters, tell }: InSyncPorts,
  { pool, container }: OwnedChange,
  before: readonly Holder[],
  after: readonly Holder[],
): void {
  const others = (holders: readonly Holder[]): NodeId[] =>
    holders.map(({ node }) => node).filter((node) => node !== self.node);
  const [was, nodes] = [others(before), others(after)];
  const left = was.filter((node) => !nodes.includes(node));
  const joined = nodes.filter((node) => !was.includes(node));
  counters.left += left.length;
  counters.joined += joined.length;
  if (left.length + joined.length > 0) tell({ kind: 'inSync', pool: pool.name, container, nodes, left });
}

/** Takes ourselves out, if others have the state. True when it is done. */
export function withdraw(ports: InSyncPorts, change: OwnedChange, done: (isOut: boolean) => void): void {
  const isOther = ({ node }: Holder): boolean => node !== ports.self.node;
  if (!change.record.inSync.some(isOther)) return done(false);
  const without = (now: ContainerRecord): ContainerRecord | undefined =>
    now.inSync.some(isOther) ? { ...now, inSync: now.inSync.filter(isOther) } : undefined;
  ports.amend(change, change.record.fence, without, (outcome) => {
    done(outcome.ok && outcome.value.inSync.every(isOther));
  });
}
