/**
 * Which commits are durable where, and the commit index. State only: `replicator.ts` performs what this file decides.
 *
 *   append -> durable at the owner and at every required replica -> committed, in order
 *
 * Required are the replicas in the ISR, those that are about to join it, those in a record update whose outcome is
 * unknown, and those that are catching up. A silent replica stays required until the record no longer names it. The
 * first commit is the state that the owner found when it opened: it may hold commits that were never acknowledged, and
 * they are served only when every replica has them or is out of the record.
 */
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ReplicaStatus } from '../../messages/replication.ts';
import type { ContainerRecord, PoolDurability, NodeInstance } from '../../placement/state/container-records.ts';
import { ReplicaProgress } from './replica-progress.ts';
import type { CommitPosition } from './replica-layout.ts';
import { type ReplicatedCommit, LogTail } from './log-tail.ts';

export type ReplicationLogOptions = {
  readonly self: NodeInstance;
  readonly fence: Fence;
  readonly base: CommitPosition;
  readonly durability: PoolDurability;
  /** A replica that keeps a commit waiting for so many ticks is removed from the ISR. */
  readonly silentTicksMax: number;
};

/** What a reply means for the owner: `fenced` ends it. */
export type ReplicaReplyEffect = 'accepted' | 'refused' | 'fenced';

export class ReplicationLog {
  readonly tail: LogTail;
  readonly replicas = new Map<NodeId, ReplicaProgress>();
  readonly #options: ReplicationLogOptions;
  /** The last commit on the owner's disk. */
  #durable: number;
  /** -1 until the state found at the opening is committed. */
  #committed = -1;
  #isSelfRecorded = false;
  /** Revision of the current record. */
  #revision = 0;
  /** Members of proposed ISRs whose update is not known to have succeeded or failed. */
  readonly #proposed = new Set<NodeId>();
  #isUpdatingIsr = false;
  #isIsrUnknown = false;
  /** The last commit that a replica may have. */
  #sent = 0;

  constructor(options: ReplicationLogOptions) {
    this.#options = options;
    this.tail = new LogTail(options.fence, options.base);
    this.#durable = options.base.seq;
    this.#sent = options.base.seq;
  }

  get durable(): number {
    return this.#durable;
  }

  get committed(): number {
    return this.#committed;
  }

  get lagging(): number {
    let count = 0;
    for (const progress of this.replicas.values()) if (progress.isWanted && !progress.isInIsr) count += 1;
    return count;
  }

  append(commit: ReplicatedCommit): number {
    return this.tail.append(commit);
  }

  /** The owner's disk has all commits up to this one. */
  onStored(seq: number): void {
    this.#durable = seq;
    this.#advance();
  }

  /** Removes the commits that the owner's disk has refused. Only while no replica can have them. */
  rollBack(): void {
    this.tail.rollBack(this.#durable);
    for (const progress of this.replicas.values()) if (progress.mode === 'snapshotting') progress.needSnapshot();
  }

  /** A replica may have a commit that the owner's disk does not have: its number must not be used again. */
  get hasUnstoredSent(): boolean {
    return this.#sent > this.#durable;
  }

  markSent(seq: number): void {
    this.#sent = Math.max(this.#sent, seq);
  }

  /** The current record, under the fence of this owner. */
  onRecord(record: ContainerRecord, revision = this.#revision): void {
    const { self, durability } = this.#options;
    const isNewer = revision > this.#revision;
    this.#revision = revision;
    const recorded = new Map(record.inSync.map(({ node, generation }) => [node, generation]));
    this.#isSelfRecorded = isSelfInIsr(recorded.get(self.node), this.#options);
    // A pool with durability 'local' has a replica only while the container moves, at the target of the move.
    const all = durability === 'local' ? [record.move?.to ?? self.node] : record.copies;
    const others = all.filter((node) => node !== self.node);
    for (const node of [...others, ...recorded.keys()]) {
      if (node !== self.node && !this.replicas.has(node)) this.replicas.set(node, new ReplicaProgress(node));
    }
    for (const progress of [...this.replicas.values()]) {
      progress.isWanted = others.includes(progress.node);
      progress.recordedGeneration = recorded.get(progress.node);
      if (progress.isInIsr) progress.enteredIsr();
      else {
        progress.isLeaving = false;
        if (isNewer) progress.isJoining = false;
      }
      if (progress.isWanted || progress.isInIsr) this.#joinIfCaughtUp(progress);
      else this.#remove(progress);
    }
    this.#advance();
  }

  /** A replica reports its position, in reply to a request with that record revision. */
  onReply(progress: ReplicaProgress, status: ReplicaStatus, revision: number): ReplicaReplyEffect {
    const hasRestarted = progress.generation !== undefined && progress.generation !== status.generation;
    progress.generation = status.generation;
    if (status.refusal === 'fenced' || status.highestFence > this.#options.fence) return 'fenced';
    const { position, refusal } = status;
    // A restarted replica in memory has lost its state; a damaged one needs all of it again.
    if ((hasRestarted && this.#options.durability === 'memory') || refusal === 'corrupt') progress.needSnapshot();
    if (refusal !== undefined && refusal !== 'mismatch') {
      this.#onRefusal(progress, refusal !== 'busy');
      return 'refused';
    }
    // A replica that lost its snapshot gets a new one, after a delay: the next one may fail the same way.
    if (refusal !== undefined && progress.snapshot !== undefined) progress.backOff();
    else progress.failures = 0;
    progress.hasReplied = true;
    progress.ackedRevision = Math.max(progress.ackedRevision, revision);
    // Replies of pipelined requests may be reordered: a higher position stays true until the replica restarts.
    const isReordered =
      refusal === undefined &&
      !hasRestarted &&
      progress.mode === 'replicating' &&
      (position?.seq ?? -1) < progress.acked;
    if (isReordered) this.#advance();
    else if (position !== undefined && this.tail.canContinueFrom(position as CommitPosition))
      progress.replicateFrom(position.seq);
    else if (progress.mode !== 'snapshotting' || !confirmsStepOf(progress, status)) progress.needSnapshot();
    else progress.unackedStep = undefined;
    this.#joinIfCaughtUp(progress);
    this.#advance();
    return 'accepted';
  }

  /** No reply: the outcome of the request is unknown. `isGone`: the replica will certainly not reply. */
  onFailure(progress: ReplicaProgress, isGone: boolean): void {
    if (progress.mode === 'replicating') progress.mode = 'probing';
    progress.hasAdvanced = false;
    this.#onRefusal(progress, isGone);
  }

  /** No commit counts without an ack of this replica. */
  isRequired(progress: ReplicaProgress): boolean {
    return progress.isInIsr || progress.isJoining || progress.isCatchingUp || this.#proposed.has(progress.node);
  }

  /**
   * A replica in memory has lost its state with its process: it is probed and gets a snapshot before the next commit.
   */
  replicaRestarted(progress: ReplicaProgress): void {
    if (this.#options.durability === 'memory' && progress.mode === 'replicating') progress.mode = 'probing';
  }

  /** Called at even intervals. */
  tick(): void {
    for (const progress of this.replicas.values()) {
      progress.backoffTicks = Math.max(0, progress.backoffTicks - 1);
      progress.catchUpBackoffTicks = Math.max(0, progress.catchUpBackoffTicks - 1);
      if (!this.isRequired(progress) || progress.acked >= this.tail.last) progress.silentTicks = 0;
      else if (++progress.silentTicks >= this.#options.silentTicksMax) this.#giveUp(progress);
    }
  }

  /** The ISR that the record should have; undefined when it is correct, or being updated. */
  wantedIsr(): readonly NodeInstance[] | undefined {
    if (this.#isUpdatingIsr || this.#isIsrCorrect()) return undefined;
    const inSync: NodeInstance[] = [this.#options.self];
    for (const progress of this.replicas.values()) {
      if (belongsInIsr(progress)) inSync.push({ node: progress.node, generation: this.#generationOf(progress) });
    }
    return inSync;
  }

  /** An update with an unknown outcome is settled by another update. */
  #isIsrCorrect(): boolean {
    if (!this.#isSelfRecorded || this.#isIsrUnknown) return false;
    for (const progress of this.replicas.values()) {
      if (progress.isInIsr !== belongsInIsr(progress)) return false;
      if (staysInIsr(progress) && this.#generationOf(progress) !== progress.recordedGeneration) return false;
    }
    return true;
  }

  isrUpdateStarted(inSync: readonly NodeInstance[]): void {
    this.#isUpdatingIsr = true;
    for (const { node } of inSync) this.#proposed.add(node);
  }

  /** `record` undefined: the outcome of the update is unknown. */
  isrUpdateEnded(record: ContainerRecord | undefined): void {
    this.#isUpdatingIsr = false;
    this.#isIsrUnknown = record === undefined;
    if (record === undefined) return;
    this.#proposed.clear();
    this.onRecord(record);
  }

  /** Drops committed entries beyond that many bytes. Replicas that would need them get a snapshot. */
  trim(bytesMax: number): void {
    this.tail.trim(Math.min(this.#committed, this.#durable), bytesMax);
    const { seq } = this.tail.start;
    for (const progress of this.replicas.values()) {
      if (progress.mode === 'replicating' && progress.acked < seq) progress.needSnapshot();
      else if (progress.snapshot !== undefined && progress.snapshot.sent < seq) progress.needSnapshot();
    }
  }

  /** The replica may drop its state now, so its reported position and its pending replies no longer count. */
  #remove({ node }: ReplicaProgress): void {
    this.replicas.delete(node);
    if (this.#proposed.has(node)) this.replicas.set(node, new ReplicaProgress(node));
  }

  #onRefusal(progress: ReplicaProgress, isPermanent: boolean): void {
    progress.backOff();
    if (isPermanent && this.isRequired(progress)) this.#giveUp(progress);
  }

  #giveUp(progress: ReplicaProgress): void {
    progress.giveUp();
    this.#advance();
  }

  /**
   * A replica that replies and has every committed entry may stay in the ISR, or join it. Between two records that this
   * owner has seen there may be one that does not name the replica, and then it may have dropped its state. So it joins
   * only with a position that it reports after a request with the current record revision. A replica that takes commits
   * but is still behind becomes required: the commit index waits until it has caught up or was silent for too long.
   */
  #joinIfCaughtUp(progress: ReplicaProgress): void {
    if (!progress.hasReplied || progress.mode !== 'replicating') return;
    const isCaughtUp = progress.acked >= this.#committed;
    if (!isCaughtUp && (progress.isInIsr || !progress.hasAdvanced || progress.catchUpBackoffTicks > 0)) return;
    if (!this.#isUpdatingIsr) progress.isLeaving = false;
    if (!progress.isWanted || progress.isInIsr || progress.isLeaving) return;
    const hasSeenRecord = progress.ackedRevision >= this.#revision;
    if (!hasSeenRecord) progress.mode = 'probing';
    progress.isJoining ||= hasSeenRecord && isCaughtUp;
    progress.isCatchingUp = hasSeenRecord && !isCaughtUp;
  }

  /** In a pool in memory the record must name the generation that has the state: any other has lost it. */
  #generationOf({ generation, recordedGeneration, acked }: ReplicaProgress): number {
    const hasRestarted = this.#options.durability === 'memory' && acked >= 0 && acked >= this.#committed;
    return (hasRestarted ? generation : recordedGeneration) ?? recordedGeneration ?? generation ?? 0;
  }

  #advance(): void {
    if (!this.#isSelfRecorded) return;
    let seq = this.#durable;
    for (const progress of this.replicas.values()) if (this.isRequired(progress)) seq = Math.min(seq, progress.acked);
    if (seq > this.#committed) this.#committed = seq;
  }
}

function isSelfInIsr(recorded: number | undefined, { self, durability }: ReplicationLogOptions): boolean {
  return durability === 'memory' ? recorded === self.generation : recorded !== undefined;
}

function staysInIsr({ isInIsr, isWanted, isLeaving }: ReplicaProgress): boolean {
  return isInIsr && isWanted && !isLeaving;
}

/** The record should name it in the ISR. */
function belongsInIsr(progress: ReplicaProgress): boolean {
  return progress.isJoining || staysInIsr(progress);
}

/** The replica has done the last step that was sent. */
function confirmsStepOf({ snapshot }: ReplicaProgress, status: ReplicaStatus): boolean {
  return snapshot !== undefined && status.snapshot === snapshot.snapshot && status.step === snapshot.step - 1;
}
