/**
 * What the owner knows of one replica: ISR membership, acknowledged commit, silence. Data only; `replication-log.ts`
 * decides. The modes are those of etcd/raft:
 *
 *   probing --reply--> replicating                   its last commit is in the log tail: it gets the commits after it
 *                      snapshotting --installed-->   its last commit is not, or it has none: it gets a snapshot first
 */
import type { NodeId } from '../../base/ids.ts';
import type { SnapshotSender } from './snapshot-sender.ts';

/** An encoded request and the revision of the record that it carries. */
export type SentRequest = { readonly body: Uint8Array; readonly revision: number };

export class ReplicaProgress {
  readonly node: NodeId;
  /** Generation of the node in its last reply. */
  generation: number | undefined;
  mode: 'probing' | 'replicating' | 'snapshotting' = 'probing';
  /** The last commit that it has reported as durable; -1 before its position is known, and during a snapshot. */
  acked = -1;
  /** The record assigns a replica to it. */
  isWanted = false;
  /** Generation under which the record names it in the ISR; undefined: not in the ISR. */
  recordedGeneration: number | undefined;
  /** Commits wait for it; the record does not name it in the ISR yet. */
  isJoining = false;
  /** Commits wait for it so that it can catch up: under load it would stay one step behind for ever. */
  isCatchingUp = false;
  /** It has acknowledged commits since its last failure. */
  hasAdvanced = false;
  /** Failed attempts to catch up since it was last in the ISR, and the ticks before commits may wait for it again. */
  failedCatchUps = 0;
  catchUpBackoffTicks = 0;
  /** To be removed from the ISR in the record. */
  isLeaving = false;
  /** It has replied since commits last stopped waiting for it. */
  hasReplied = false;
  /** Highest record revision in a request that it has replied to. */
  ackedRevision = 0;
  /** Requests without a reply yet, and reads of the store for a snapshot. */
  inFlight = 0;
  inFlightBytes = 0;
  /** The last commit sent to it. */
  sent = -1;
  /** Ticks in which a commit waited for it without progress. */
  silentTicks = 0;
  /** Ticks before the next request to it. */
  backoffTicks = 0;
  failures = 0;
  snapshot: SnapshotSender | undefined;
  /** The snapshot step without a reply. It is sent again unchanged: a replica does each step once. */
  unackedStep: SentRequest | undefined;

  constructor(node: NodeId) {
    this.node = node;
  }

  get isInIsr(): boolean {
    return this.recordedGeneration !== undefined;
  }

  /** The commit after which the next request starts. */
  get next(): number {
    return this.inFlight === 0 ? this.acked : Math.max(this.sent, this.acked);
  }

  /** Doubles the delay with each failure. */
  backOff(): void {
    this.backoffTicks = Math.min(2 ** this.failures, backoffTicksMax) - 1;
    this.failures += 1;
  }

  /** The node is back: earlier failures do not count. */
  resetBackoff(): void {
    this.failures = 0;
    this.backoffTicks = 0;
  }

  /** Its position is in the log tail: it gets the commits after `seq`. */
  replicateFrom(seq: number): void {
    if (seq > this.acked) this.silentTicks = 0;
    if (this.mode === 'replicating' && seq > this.acked) this.hasAdvanced = true;
    this.mode = 'replicating';
    this.acked = seq;
    this.snapshot = undefined;
    this.unackedStep = undefined;
  }

  /** The record names it in the ISR. */
  enteredIsr(): void {
    this.isJoining = false;
    this.isCatchingUp = false;
    this.failedCatchUps = 0;
  }

  /** Commits stop waiting for it. If it was catching up, they wait again only after a growing delay. */
  giveUp(): void {
    if (this.isCatchingUp) {
      this.catchUpBackoffTicks = Math.min(2 ** this.failedCatchUps, catchUpBackoffUnitsMax) * catchUpBackoffUnitTicks;
      this.failedCatchUps += 1;
    }
    this.isCatchingUp = false;
    this.hasAdvanced = false;
    this.isLeaving = true;
    this.isJoining = false;
    this.hasReplied = false;
  }

  /** Its position cannot be continued from the log tail. */
  needSnapshot(): void {
    this.mode = 'snapshotting';
    this.acked = -1;
    this.isCatchingUp = false;
    this.snapshot = undefined;
    this.unackedStep = undefined;
  }
}

const backoffTicksMax = 16;
const catchUpBackoffUnitTicks = 16;
const catchUpBackoffUnitsMax = 16;
