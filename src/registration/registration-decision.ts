/**
 * Decides from a snapshot how a node registers. The transaction compares every record that the decision rests on, so an
 * outdated decision is never carried out; the node reads again and decides again. Pure.
 *
 *   the registration exists, under the lease of this process   held: nothing to do
 *   it exists, of an earlier generation                        take it over; the mode stays
 *   it is gone, and no node is registered                      new epoch: no node can have taken over
 *   it is gone, and the epoch has changed since                the same; another node started the new epoch
 *   it is gone, and the epoch is the same                      late return: drained
 *   no record of this node                                     boot, or join
 *
 * An epoch is a period in which some node was registered without a gap. A new leader may find registrations that no
 * node renews, because leases do not expire without a leader. The epoch continues only if a survivor of it confirms it
 * (registration-maintenance.ts); otherwise the first node that registers starts a new epoch. Both write the epoch key,
 * so one of them wins.
 */
import { assert } from '../base/assert.ts';
import type { Identity } from '../base/ports.ts';
import type { LeaseId, RegistryCompare } from '../base/registry.ts';
import { clusterKey } from '../registry/cluster-keys.ts';
import { type PreviousMode, type NodeMode, type StateReason, isLateReturn, nextMode } from './node-modes.ts';
import type { RegistrationOptions } from './registration-options.ts';
import type { ClusterSnapshot } from './cluster-snapshot.ts';
import type { EpochRecord, NodeStateRecord } from './registration-records.ts';

export type RegistrationContext = {
  readonly identity: Identity;
  readonly policy: Pick<RegistrationOptions, 'rejoin' | 'firstJoin'>;
  /** This process has been registered before. */
  readonly wasRegistered: boolean;
  /** The current lease, and the earlier ones of this process. */
  readonly lease: LeaseId | undefined;
  readonly previousLeases: ReadonlySet<LeaseId>;
  /** No survivor of the epoch has confirmed it within the grace. */
  readonly noSurvivorSeen: boolean;
};

export type RegistrationDecision =
  | { readonly kind: 'fenced'; readonly text: string }
  | { readonly kind: 'wait'; readonly text: string }
  | { readonly kind: 'held'; readonly state: NodeStateRecord }
  | RegistrationEntry;

/** How the node registers. */
export type RegistrationEntry = {
  readonly kind: 'register';
  readonly mode: NodeMode;
  readonly reason: StateReason;
  readonly note: string;
  readonly epoch: EpochRecord;
  readonly beginsEpoch: boolean;
  readonly compare: readonly RegistryCompare[];
  /** The lease of an earlier process of this node: it must be revoked. */
  readonly previousLease: LeaseId | undefined;
};

export function decideRegistration(snapshot: ClusterSnapshot, context: RegistrationContext): RegistrationDecision {
  const { registration, state } = snapshot;
  const { generation } = context.identity;
  const latest = Math.max(registration?.record?.generation ?? 0, state?.record?.generation ?? 0);
  if (latest > generation)
    return { kind: 'fenced', text: `generation ${latest} of this node has superseded generation ${generation}` };
  const lease = registration?.entry.lease;
  if (registration?.record?.generation === generation) {
    if (lease !== undefined && lease === context.lease && state?.record !== undefined && !state.record.lost)
      return { kind: 'held', state: state.record };
    if (lease === undefined || (lease !== context.lease && !context.previousLeases.has(lease)))
      return { kind: 'fenced', text: `another process runs with generation ${generation} of this node` };
  }
  const epoch = decideEpoch(snapshot, context.noSurvivorSeen);
  return epoch.kind === 'wait' ? epoch : register(snapshot, context, epoch);
}

type EpochDecision = Pick<RegistrationEntry, 'epoch' | 'beginsEpoch'> & { readonly kind: 'known' };

function decideEpoch(
  snapshot: ClusterSnapshot,
  noSurvivorSeen: boolean,
): EpochDecision | Extract<RegistrationDecision, { kind: 'wait' }> {
  const { registration, oldestPeer, term, revision } = snapshot;
  const current = snapshot.epoch?.record;
  if (registration === undefined && oldestPeer === undefined) {
    // Each epoch took at least one revision, so this number is higher than that of a malformed epoch record.
    const epoch = { epoch: (current?.epoch ?? revision) + 1, term: Math.max(term, current?.term ?? 0) };
    return { kind: 'known', epoch, beginsEpoch: true };
  }
  if (current === undefined) return { kind: 'wait', text: 'nodes are registered, but the epoch record is malformed' };
  if (term <= current.term) return { kind: 'known', epoch: current, beginsEpoch: false };
  if (oldestPeer !== undefined && !noSurvivorSeen)
    return { kind: 'wait', text: 'waiting for a survivor of the previous epoch' };
  return { kind: 'known', epoch: { epoch: current.epoch + 1, term }, beginsEpoch: true };
}

function register(snapshot: ClusterSnapshot, context: RegistrationContext, epoch: EpochDecision): RegistrationEntry {
  const { registration, state } = snapshot;
  const from: PreviousMode = state === undefined ? 'none' : (state.record?.mode ?? 'unknown');
  const cause = causeOf(snapshot, context, epoch);
  const mode = modeByPolicy(cause, from, context, state?.record) ?? nextMode(cause, from);
  assert(mode !== undefined, `no transition from ${from} by ${cause}`);
  const stays = from === mode && (from === 'drained' || from === 'draining');
  const reason = stays ? (state?.record?.reason ?? cause) : from === 'draining' ? 'drain_complete' : cause;
  return {
    kind: 'register',
    mode,
    reason,
    note: stays || reason === 'drain_complete' ? (state?.record?.note ?? '') : '',
    epoch: epoch.epoch,
    beginsEpoch: epoch.beginsEpoch,
    compare: guards(snapshot, context),
    previousLease: registration?.entry.lease === context.lease ? undefined : registration?.entry.lease,
  };
}

function causeOf(
  { registration, state, oldestPeer }: ClusterSnapshot,
  context: RegistrationContext,
  epoch: EpochDecision,
): StateReason {
  const firstTime = state === undefined && registration === undefined && !context.wasRegistered;
  if (firstTime) return oldestPeer === undefined ? 'boot' : 'join';
  const sameEpoch = !epoch.beginsEpoch && (state?.record === undefined || state.record.epoch === epoch.epoch.epoch);
  if (!sameEpoch) return 'full_cluster_restart';
  if (registration !== undefined && state?.record?.lost !== true) return 'fast_restart';
  return context.wasRegistered ? 'registration_expired' : 'stale_restart';
}

function modeByPolicy(
  cause: StateReason,
  from: PreviousMode,
  { policy }: RegistrationContext,
  previous: NodeStateRecord | undefined,
): NodeMode | undefined {
  if (cause === 'join' && policy.firstJoin === 'drained') return 'drained';
  // Drained by an earlier late return under another policy, not by an operator.
  if (policy.rejoin === 'active' && from === 'drained' && previous !== undefined && isLateReturn(previous.reason))
    return 'joining';
  return isLateReturn(cause) && policy.rejoin === 'active' && (from === 'active' || from === 'joining')
    ? 'joining'
    : undefined;
}

/** The decision holds while its records are unchanged and the oldest peer has stayed registered without a gap. */
function guards(
  { registration, state, epoch, oldestPeer }: ClusterSnapshot,
  { identity }: RegistrationContext,
): readonly RegistryCompare[] {
  const unchanged = (key: string, than: number): RegistryCompare => ({ key, target: 'modRevision', is: 'equal', than });
  const node = identity.id;
  return [
    unchanged(clusterKey({ kind: 'registration', node }), registration?.entry.modRevision ?? 0),
    unchanged(clusterKey({ kind: 'state', node }), state?.entry.modRevision ?? 0),
    unchanged(clusterKey({ kind: 'epoch' }), epoch?.entry.modRevision ?? 0),
    ...(oldestPeer === undefined
      ? []
      : [{ key: oldestPeer.key, target: 'createRevision', is: 'equal', than: oldestPeer.createRevision } as const]),
  ];
}
