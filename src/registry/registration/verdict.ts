/**
 * What the registry says a node is when it arrives, returns or looks again, and the one transaction that makes it so.
 * Everything the judgement rests on is compared in that transaction, so a judgement that has become wrong is not
 * carried out; the node looks and judges again.
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
 * (upkeep.ts); otherwise whoever starts first begins a new one. One key decides between the two.
 */
import { assert } from '../../base/assert.ts';
import type { Identity } from '../../base/ports.ts';
import type { LeaseId, RegistryCompare } from '../../base/registry.ts';
import { clusterKey } from '../keys.ts';
import { type FormerMode, type NodeMode, type StateReason, modeAfter } from './modes.ts';
import type { RegistrationOptions } from './options.ts';
import type { Picture } from './picture.ts';
import type { EpochRecord, StateRecord } from './records.ts';

export type Life = {
  readonly identity: Identity;
  readonly policy: Pick<RegistrationOptions, 'rejoin' | 'firstJoin'>;
  /** This life was registered before. */
  readonly wasRegistered: boolean;
  /** The lease that is held now, and those of this life that were held before. */
  readonly lease: LeaseId | undefined;
  readonly formerLeases: ReadonlySet<LeaseId>;
  /** Nobody who lived on has shown up for long enough. */
  readonly quiet: boolean;
};

export type Verdict =
  | { readonly kind: 'fenced'; readonly text: string }
  | { readonly kind: 'wait'; readonly text: string }
  | { readonly kind: 'held'; readonly state: StateRecord }
  | Entry;

/** How the node registers. */
export type Entry = {
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

export function judge(picture: Picture, life: Life): Verdict {
  const { registration, state } = picture;
  const { generation } = life.identity;
  const later = Math.max(registration?.record?.generation ?? 0, state?.record?.generation ?? 0);
  if (later > generation)
    return { kind: 'fenced', text: `life ${later} of this node has taken over from ${generation}` };
  const lease = registration?.entry.lease;
  if (registration?.record?.generation === generation) {
    if (lease !== undefined && lease === life.lease && state?.record !== undefined && !state.record.lost)
      return { kind: 'held', state: state.record };
    if (lease === undefined || (lease !== life.lease && !life.formerLeases.has(lease)))
      return { kind: 'fenced', text: `another process runs as life ${generation} of this node` };
  }
  const time = continuity(picture, life.quiet);
  return time.kind === 'wait' ? time : enter(picture, life, time);
}

type Continuity = Pick<Entry, 'epoch' | 'beginsEpoch'> & { readonly kind: 'known' };

function continuity(picture: Picture, quiet: boolean): Continuity | Extract<Verdict, { kind: 'wait' }> {
  const { registration, witness, term, revision } = picture;
  const present = picture.epoch?.record;
  if (registration === undefined && witness === undefined) {
    // There were never more epochs than revisions, so this is higher than any that stood where nobody can read it.
    const epoch = { epoch: (present?.epoch ?? revision) + 1, term: Math.max(term, present?.term ?? 0) };
    return { kind: 'known', epoch, beginsEpoch: true };
  }
  if (present === undefined) return { kind: 'wait', text: 'nodes are registered, but the epoch cannot be read' };
  if (term <= present.term) return { kind: 'known', epoch: present, beginsEpoch: false };
  if (witness !== undefined && !quiet)
    return { kind: 'wait', text: 'the leader is new, and nobody has said yet that he lived through the change' };
  return { kind: 'known', epoch: { epoch: present.epoch + 1, term }, beginsEpoch: true };
}

function enter(picture: Picture, life: Life, time: Continuity): Entry {
  const { registration, state } = picture;
  const from: FormerMode = state === undefined ? 'none' : (state.record?.mode ?? 'unknown');
  const cause = causeOf(picture, life, time);
  const mode = policyOf(cause, from, life) ?? modeAfter(cause, from);
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

function causeOf({ registration, state, witness }: Picture, life: Life, time: Continuity): StateReason {
  const firstTime = state === undefined && registration === undefined && !life.wasRegistered;
  if (firstTime) return witness === undefined ? 'boot' : 'join';
  const sameEpoch = !time.beginsEpoch && (state?.record === undefined || state.record.epoch === time.epoch.epoch);
  if (!sameEpoch) return 'full_cluster_restart';
  if (registration !== undefined && state?.record?.lost !== true) return 'fast_restart';
  return life.wasRegistered ? 'registration_expired' : 'stale_restart';
}

function policyOf(cause: StateReason, from: FormerMode, { policy }: Life): NodeMode | undefined {
  if (cause === 'join' && policy.firstJoin === 'drained') return 'drained';
  const tooLate = cause === 'stale_restart' || cause === 'registration_expired';
  return tooLate && policy.rejoin === 'active' && (from === 'active' || from === 'joining') ? 'joining' : undefined;
}

/** The judgement holds as long as nobody wrote what it was made of, and the witness was there all the time. */
function guards({ registration, state, epoch, witness }: Picture, { identity }: Life): readonly RegistryCompare[] {
  const unchanged = (key: string, than: number): RegistryCompare => ({ key, target: 'modRevision', is: 'equal', than });
  const node = identity.id;
  return [
    unchanged(clusterKey({ kind: 'registration', node }), registration?.entry.modRevision ?? 0),
    unchanged(clusterKey({ kind: 'state', node }), state?.entry.modRevision ?? 0),
    unchanged(clusterKey({ kind: 'epoch' }), epoch?.entry.modRevision ?? 0),
    ...(witness === undefined
      ? []
      : [{ key: witness.key, target: 'createRevision', is: 'equal', than: witness.createRevision } as const]),
  ];
}
