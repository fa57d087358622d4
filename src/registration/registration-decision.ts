/**
 * Decides from a snapshot what a node is on arrival: held, taken over, new epoch, drained or fenced. What it rests on
 * is compared in the transaction it returns, so a decision that has become wrong is not carried out; the node reads and
 * decides again.
 *
 *   my registration is there, under my lease            held: nothing to do
 *   it is there, of an earlier life                     taken over; the mode stays
 *   it is gone, and nobody is registered                a new epoch: nobody can have taken over from me
 *   it is gone, and the epoch is another than mine      the same, and somebody was faster
 *   it is gone, and the epoch is still mine             somebody outlived me: drained
 *   never seen here                                     boot, or join
 *
 * An epoch is a time without a gap in the registrations. A leader of a new term may find registrations that nobody
 * renews, because time stood still while nobody led: the epoch goes on only if a node that lived through it says so
 * (registration-maintenance.ts); otherwise whoever starts first begins a new one. One key decides between the two.
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
  /** This life was registered before. */
  readonly wasRegistered: boolean;
  /** The lease that is held now, and those of this life that were held before. */
  readonly lease: LeaseId | undefined;
  readonly previousLeases: ReadonlySet<LeaseId>;
  /** Nobody who lived on has shown up for long enough. */
  readonly noSurvivorSeen: boolean;
};

export type RegistrationDecision =
  | { readonly kind: 'fenced'; readonly text: string }
  | { readonly kind: 'wait'; readonly text: string }
  | { readonly kind: 'held'; readonly state: NodeStateRecord }
  | RegistrationEntry;

/** How the node registers. */
export type RegistrationEntry = {
  readonly kind: 'enter';
  readonly mode: NodeMode;
  readonly reason: StateReason;
  readonly note: string;
  readonly epoch: EpochRecord;
  readonly beginsEpoch: boolean;
  readonly compare: readonly RegistryCompare[];
  /** An earlier life's: it has to end, so that nobody goes on renewing it. */
  readonly formerLease: LeaseId | undefined;
};

export function decideRegistration(picture: ClusterSnapshot, life: RegistrationContext): RegistrationDecision {
  const { registration, state } = picture;
  const { generation } = life.identity;
  const later = Math.max(registration?.record?.generation ?? 0, state?.record?.generation ?? 0);
  if (later > generation)
    return { kind: 'fenced', text: `life ${later} of this node has taken over from ${generation}` };
  const lease = registration?.entry.lease;
  if (registration?.record?.generation === generation) {
    if (lease !== undefined && lease === life.lease && state?.record !== undefined && !state.record.lost)
      return { kind: 'held', state: state.record };
    if (lease === undefined || (lease !== life.lease && !life.previousLeases.has(lease)))
      return { kind: 'fenced', text: `another process runs as life ${generation} of this node` };
  }
  const time = continuity(picture, life.noSurvivorSeen);
  return time.kind === 'wait' ? time : enter(picture, life, time);
}

type Continuity = Pick<RegistrationEntry, 'epoch' | 'beginsEpoch'> & { readonly kind: 'known' };

function continuity(
  picture: ClusterSnapshot,
  quiet: boolean,
): Continuity | Extract<RegistrationDecision, { kind: 'wait' }> {
  const { registration, oldestPeer, term, revision } = picture;
  const present = picture.epoch?.record;
  if (registration === undefined && oldestPeer === undefined) {
    // There were never more epochs than revisions, so this is higher than any that stood where nobody can read it.
    const epoch = { epoch: (present?.epoch ?? revision) + 1, term: Math.max(term, present?.term ?? 0) };
    return { kind: 'known', epoch, beginsEpoch: true };
  }
  if (present === undefined) return { kind: 'wait', text: 'nodes are registered, but the epoch cannot be read' };
  if (term <= present.term) return { kind: 'known', epoch: present, beginsEpoch: false };
  if (oldestPeer !== undefined && !quiet)
    return { kind: 'wait', text: 'the leader is new, and nobody has said yet that he lived through the change' };
  return { kind: 'known', epoch: { epoch: present.epoch + 1, term }, beginsEpoch: true };
}

function enter(picture: ClusterSnapshot, life: RegistrationContext, time: Continuity): RegistrationEntry {
  const { registration, state } = picture;
  const from: PreviousMode = state === undefined ? 'none' : (state.record?.mode ?? 'unknown');
  const cause = causeOf(picture, life, time);
  const mode = policyOf(cause, from, life, state?.record) ?? nextMode(cause, from);
  assert(mode !== undefined, `there is no way from ${from} by ${cause}`);
  const stays = from === mode && (from === 'drained' || from === 'draining');
  const reason = stays ? (state?.record?.reason ?? cause) : from === 'draining' ? 'drain_complete' : cause;
  return {
    kind: 'enter',
    mode,
    reason,
    note: stays || reason === 'drain_complete' ? (state?.record?.note ?? '') : '',
    epoch: time.epoch,
    beginsEpoch: time.beginsEpoch,
    compare: guards(picture, life),
    formerLease: registration?.entry.lease === life.lease ? undefined : registration?.entry.lease,
  };
}

function causeOf(
  { registration, state, oldestPeer }: ClusterSnapshot,
  life: RegistrationContext,
  time: Continuity,
): StateReason {
  const firstTime = state === undefined && registration === undefined && !life.wasRegistered;
  if (firstTime) return oldestPeer === undefined ? 'boot' : 'join';
  const sameEpoch = !time.beginsEpoch && (state?.record === undefined || state.record.epoch === time.epoch.epoch);
  if (!sameEpoch) return 'full_cluster_restart';
  if (registration !== undefined && state?.record?.lost !== true) return 'fast_restart';
  return life.wasRegistered ? 'registration_expired' : 'stale_restart';
}

function policyOf(
  cause: StateReason,
  from: PreviousMode,
  { policy }: RegistrationContext,
  former: NodeStateRecord | undefined,
): NodeMode | undefined {
  if (cause === 'join' && policy.firstJoin === 'drained') return 'drained';
  // Drained for an earlier late return, and started with another policy since: no operator wanted it drained.
  if (policy.rejoin === 'active' && from === 'drained' && former !== undefined && isLateReturn(former.reason))
    return 'joining';
  const tooLate = cause === 'stale_restart' || cause === 'registration_expired';
  return tooLate && policy.rejoin === 'active' && (from === 'active' || from === 'joining') ? 'joining' : undefined;
}

/** The judgement holds as long as nobody wrote what it was made of, and the witness was there all the time. */
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
