/**
 * What the owner knows of one replica: ISR membership, acked commit, silence. Data only; `replication-log.ts` decides.
 * Invariant: acked <= sent while replicating.
 *
 *   unknown --it answers--> following                its last commit is in our tail: it gets what comes after it
 *                           copying --installed-->   it is elsewhere, or has nothing: it gets a snapshot first
 */
import type { NodeId } from '../../base/ids.ts';
import type { SnapshotSender } from './snapshot-sender.ts';

/** A request as it goes over the wire, and the record by which it was made. */
export type SentRequest = { readonly body: Uint8Array; readonly revision: number };

export class ReplicaProgress {
  readonly node: NodeId;
  /** Of the life that answered last. */
  generation: number | undefined;
  mode: 'unknown' | 'following' | 'copying' = 'unknown';
  /** The last commit it has told us to have; -1 while it is not following. */
  acked = -1;
  /** The record says that it should have a copy. */
  isWanted = false;
  /** The record says that it has every acknowledged write, in this life. */
  recordedGeneration: number | undefined;
  /** Commits wait for it already; the record does not say so yet. */
  isJoining = false;
  /** Commits wait for it so that it can get there: under load it would be a step behind for ever. */
  isCatchingUp = false;
  /** It has taken commits since it failed last. */
  hasAdvanced = false;
  /** How often it was awaited in vain since it was in the record, and for how many ticks it is not awaited again. */
  failedCatchUps = 0;
  vainTicks = 0;
  /** It is to be taken out of the record. */
  isLeaving = false;
  /** It has answered since it was given up last. */
  hasAnswered = false;
  /** Of the record that an answered request told it of. */
  provenRevision = 0;
  /** Requests that are on their way to it, and what is being read for it. */
  inFlight = 0;
  underWayBytes = 0;
  /** The last commit that is on its way to it. */
  sent = -1;
  /** Ticks in which it was waited for in vain. */
  silentTicks = 0;
  /** Nothing is tried for so many ticks. */
  pauseTicks = 0;
  failures = 0;
  snapshot: SnapshotSender | undefined;
  /** A step of the snapshot that was not answered: it is sent again as it was, since steps are done once. */
  unanswered: SentRequest | undefined;

  constructor(node: NodeId) {
    this.node = node;
  }

  get isInIsr(): boolean {
    return this.recordedGeneration !== undefined;
  }

  /** What has to be sent to it next follows this commit. */
  get next(): number {
    return this.inFlight === 0 ? this.acked : Math.max(this.sent, this.acked);
  }

  /** Waits longer after each failure. */
  backOff(): void {
    this.pauseTicks = Math.min(2 ** this.failures, pauseTicksMax) - 1;
    this.failures += 1;
  }

  /** What failed before says nothing about now. */
  resetBackoff(): void {
    this.failures = 0;
    this.pauseTicks = 0;
  }

  follow(seq: number): void {
    if (seq > this.acked) this.silentTicks = 0;
    if (this.mode === 'following' && seq > this.acked) this.hasAdvanced = true;
    this.mode = 'following';
    this.acked = seq;
    this.snapshot = undefined;
    this.unanswered = undefined;
  }

  /** The record counts on it. */
  enteredIsr(): void {
    this.isJoining = false;
    this.isCatchingUp = false;
    this.failedCatchUps = 0;
  }

  /** Nobody waits for it any more, and not again soon if it was only to get there. */
  giveUp(): void {
    if (this.isCatchingUp) {
      this.vainTicks = Math.min(2 ** this.failedCatchUps, vainMax) * vainTicksUnit;
      this.failedCatchUps += 1;
    }
    this.isCatchingUp = false;
    this.hasAdvanced = false;
    this.isLeaving = true;
    this.isJoining = false;
    this.hasAnswered = false;
  }

  /** Whatever it had, it cannot be continued from our tail. */
  needSnapshot(): void {
    this.mode = 'copying';
    this.acked = -1;
    this.isCatchingUp = false;
    this.snapshot = undefined;
    this.unanswered = undefined;
  }
}

const pauseTicksMax = 16;
const vainTicksUnit = 16;
const vainMax = 16;
