/**
 * What an owner writes into the record about who has every acknowledged write, and how it is told. It changes nothing
 * else of the record, and keeps nothing itself.
 */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ContainerRecord, Holder } from '../../registry/placement/records.ts';
import type { ContainerChange, Copies } from '../contract.ts';
import type { CopiesEvent } from './copies-event.ts';
import type { CopiesCounters } from './copies-options.ts';

export type InSyncPorts = {
  readonly self: Holder;
  readonly amend: Copies['amend'];
  readonly counters: CopiesCounters;
  readonly tell: (event: CopiesEvent) => void;
};

type OwnedChange = ContainerChange & { readonly record: ContainerRecord };

/** Ends as `amend` does. */
export function writeInSync(
  ports: InSyncPorts,
  change: OwnedChange,
  inSync: readonly Holder[],
  done: Done<ContainerRecord>,
): void {
  const { node: self } = ports.self;
  let before: readonly Holder[] = [];
  const next = (record: ContainerRecord): ContainerRecord => {
    before = record.inSync;
    // Whom the leader has taken out of the copies meanwhile is not named again.
    return { ...record, inSync: inSync.filter(({ node }) => record.copies.includes(node) || node === self) };
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
