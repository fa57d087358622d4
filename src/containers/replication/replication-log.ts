/**
 * Which commits are on which disk, and the commit index. Committed = stored here and acked by every required replica
 * (ISR and those joining or leaving). State only, no I/O.
 *
 *   append -> on our disk, and in every copy that is required -> committed, in order
 *
 * Required is whom the record names as in sync, and whoever may be named there soon: a copy that has caught up, and
 * everybody in a change of the record whose end we do not know, and a copy that is nearly there. A copy that is silent
 * for too long stays required until the record no longer names it. The first thing to be committed is the state that
 * was found at the opening: it may have commits that nobody acknowledged, and nobody may see those before every copy
 * has them or is out of the record.
 *
 * Nothing here acts or waits: replicator.ts does what is decided here.
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
  /** A copy that is waited for in vain for so many ticks is taken out. */
  readonly quietTicksMax: number;
};

/** What an answer means for the log as a whole. */
export type ReplicaReplyEffect = 'fine' | 'refused' | 'fenced';

export class ReplicationLog {
  readonly tail: LogTail;
  readonly replicas = new Map<NodeId, ReplicaProgress>();
  readonly #options: ReplicationLogOptions;
  /** Of the last commit on our disk. */
  #durable: number;
  /** -1 until the state of the opening is. */
  #committed = -1;
  #isSelfRecorded = false;
  /** Of the record that is followed. */
  #revision = 0;
  /** In a change of the record of which we do not know whether it has happened. */
  readonly #proposed = new Set<NodeId>();
  #isAmending = false;
  #isUncertain = false;
  /** The last commit that a copy may have seen. */
  #told = 0;

  constructor(options: ReplicationLogOptions) {
    this.#options = options;
    this.tail = new LogTail(options.fence, options.base);
    this.#durable = options.base.seq;
    this.#told = options.base.seq;
  }

  get durable(): number {
    return this.#durable;
  }

  get committed(): number {
    return this.#committed;
  }

  get lagging(): number {
    let count = 0;
    for (const link of this.replicas.values()) if (link.isWanted && !link.isInIsr) count += 1;
    return count;
  }

  append(commit: ReplicatedCommit): number {
    return this.tail.append(commit);
  }

  /** Our disk has everything up to this commit. */
  onStored(seq: number): void {
    this.#durable = seq;
    this.#advance();
  }

  /** Only while no copy can have seen them: our disk has refused what came after `durable`. */
  rollBack(): void {
    this.tail.rollBack(this.#durable);
    for (const link of this.replicas.values()) if (link.mode === 'copying') link.needSnapshot();
  }

  /** Somebody may have a commit that our own disk does not have: its number can never be used for another. */
  get hasUnstoredSent(): boolean {
    return this.#told > this.#durable;
  }

  markSent(seq: number): void {
    this.#told = Math.max(this.#told, seq);
  }

  /** The record as it now is, under our fence. */
  onRecord(record: ContainerRecord, revision = this.#revision): void {
    const { self, durability } = this.#options;
    const isNewer = revision > this.#revision;
    this.#revision = revision;
    const recorded = new Map(record.inSync.map(({ node, generation }) => [node, generation]));
    this.#isSelfRecorded = isSelf(recorded.get(self.node), this.#options);
    // What is only on the disk of its owner is copied to where it is to move, and to nobody else.
    const all = durability === 'local' ? [record.move?.to ?? self.node] : record.copies;
    const others = all.filter((node) => node !== self.node);
    for (const node of [...others, ...recorded.keys()]) {
      if (node !== self.node && !this.replicas.has(node)) this.replicas.set(node, new ReplicaProgress(node));
    }
    for (const link of [...this.replicas.values()]) {
      link.isWanted = others.includes(link.node);
      link.recordedGeneration = recorded.get(link.node);
      if (link.isInIsr) link.enteredIsr();
      else {
        link.isLeaving = false;
        if (isNewer) link.isJoining = false;
      }
      if (link.isWanted || link.isInIsr) this.#consider(link);
      else this.#unnamed(link);
    }
    this.#advance();
  }

  /** A copy has answered where it stands, to a request that told it of the record of that revision. */
  onReply(link: ReplicaProgress, standing: ReplicaStatus, revision: number): ReplicaReplyEffect {
    const isNewLife = link.generation !== undefined && link.generation !== standing.generation;
    link.generation = standing.generation;
    if (standing.refusal === 'fenced' || standing.highestFence > this.#options.fence) return 'fenced';
    const { position, refusal } = standing;
    // What was only in memory ended with that life; what is damaged is made anew as a whole.
    if ((isNewLife && this.#options.durability === 'memory') || refusal === 'corrupt') link.needSnapshot();
    if (refusal !== undefined && refusal !== 'mismatch') {
      this.#refused(link, refusal !== 'busy');
      return 'refused';
    }
    // A snapshot that is not where we have left it begins again, but not at once: the next one may end the same way.
    if (refusal !== undefined && link.snapshot !== undefined) link.backOff();
    else link.failures = 0;
    link.hasAnswered = true;
    link.provenRevision = Math.max(link.provenRevision, revision);
    // Of several requests a later one may have been answered first: what it has said is true, as long as it lives.
    const isOld =
      refusal === undefined && !isNewLife && link.mode === 'following' && (position?.seq ?? -1) < link.acked;
    if (isOld) this.#advance();
    else if (position !== undefined && this.tail.canContinueFrom(position as CommitPosition)) link.follow(position.seq);
    else if (link.mode !== 'copying' || !isStepOf(link, standing)) link.needSnapshot();
    else link.unanswered = undefined;
    this.#consider(link);
    this.#advance();
    return 'fine';
  }

  /** It did not answer; we do not know what it has done. `isGone`: and surely will not. */
  onFailure(link: ReplicaProgress, isGone: boolean): void {
    if (link.mode === 'following') link.mode = 'unknown';
    link.hasAdvanced = false;
    this.#refused(link, isGone);
  }

  /** Nothing is committed without it. */
  isRequired(link: ReplicaProgress): boolean {
    return link.isInIsr || link.isJoining || link.isCatchingUp || this.#proposed.has(link.node);
  }

  /** The life in which it had everything is over. What was in memory has to be given anew, before anybody writes. */
  replicaRestarted(link: ReplicaProgress): void {
    if (this.#options.durability === 'memory' && link.mode === 'following') link.mode = 'unknown';
  }

  /** Called at even intervals. */
  tick(): void {
    for (const link of this.replicas.values()) {
      link.pauseTicks = Math.max(0, link.pauseTicks - 1);
      link.vainTicks = Math.max(0, link.vainTicks - 1);
      if (!this.isRequired(link) || link.acked >= this.tail.last) link.silentTicks = 0;
      else if (++link.silentTicks >= this.#options.quietTicksMax) this.#giveUp(link);
    }
  }

  /** Whom the record should name instead; undefined when it is right, or being changed. */
  wantedIsr(): readonly NodeInstance[] | undefined {
    if (this.#isAmending || this.#isRight()) return undefined;
    const inSync: NodeInstance[] = [this.#options.self];
    for (const link of this.replicas.values()) {
      if (belongs(link)) inSync.push({ node: link.node, generation: this.#generationOf(link) });
    }
    return inSync;
  }

  /** Asked after every answer: mostly it is. What may or may not have happened is settled by doing it again. */
  #isRight(): boolean {
    if (!this.#isSelfRecorded || this.#isUncertain) return false;
    for (const link of this.replicas.values()) {
      if (link.isInIsr !== belongs(link)) return false;
      if (stays(link) && this.#generationOf(link) !== link.recordedGeneration) return false;
    }
    return true;
  }

  isrUpdateStarted(inSync: readonly NodeInstance[]): void {
    this.#isAmending = true;
    for (const { node } of inSync) this.#proposed.add(node);
  }

  /** `record` undefined: nobody knows whether it has happened. */
  isrUpdateEnded(record: ContainerRecord | undefined): void {
    this.#isAmending = false;
    this.#isUncertain = record === undefined;
    if (record === undefined) return;
    this.#proposed.clear();
    this.onRecord(record);
  }

  /** Forgets commits that are everywhere, so that at most so many bytes stay. Copies that would need them start anew. */
  trim(bytesMax: number): void {
    this.tail.trim(Math.min(this.#committed, this.#durable), bytesMax);
    const { seq } = this.tail.start;
    for (const link of this.replicas.values()) {
      if (link.mode === 'following' && link.acked < seq) link.needSnapshot();
      else if (link.snapshot !== undefined && link.snapshot.sent < seq) link.needSnapshot();
    }
  }

  /** It may drop what it has at once, so nothing that it has said counts any more, and no answer that is on its way. */
  #unnamed({ node }: ReplicaProgress): void {
    this.replicas.delete(node);
    if (this.#proposed.has(node)) this.replicas.set(node, new ReplicaProgress(node));
  }

  #refused(link: ReplicaProgress, isCertain: boolean): void {
    link.backOff();
    if (isCertain && this.isRequired(link)) this.#giveUp(link);
  }

  #giveUp(link: ReplicaProgress): void {
    link.giveUp();
    this.#advance();
  }

  /**
   * It answers, so it may stay or join, if it has all that was ever acknowledged. Between two records that we have seen
   * there may have been one that did not name it, and then it may have dropped everything. Only who was told of this
   * record forgets all before it: so it joins with what it says after that. One that takes commits and is still behind
   * is awaited: what is acknowledged stands still until it has that, or has been silent for too long.
   */
  #consider(link: ReplicaProgress): void {
    if (!link.hasAnswered || link.mode !== 'following') return;
    const hasAll = link.acked >= this.#committed;
    if (!hasAll && (link.isInIsr || !link.hasAdvanced || link.vainTicks > 0)) return;
    if (!this.#isAmending) link.isLeaving = false;
    if (!link.isWanted || link.isInIsr || link.isLeaving) return;
    const isTold = link.provenRevision >= this.#revision;
    if (!isTold) link.mode = 'unknown';
    link.isJoining ||= isTold && hasAll;
    link.isCatchingUp = isTold && !hasAll;
  }

  /** In pools without disks another life of a copy has nothing, so the record must name the life that has it. */
  #generationOf({ generation, recordedGeneration, acked }: ReplicaProgress): number {
    const isNewLife = this.#options.durability === 'memory' && acked >= 0 && acked >= this.#committed;
    return (isNewLife ? generation : recordedGeneration) ?? recordedGeneration ?? generation ?? 0;
  }

  #advance(): void {
    if (!this.#isSelfRecorded) return;
    let seq = this.#durable;
    for (const link of this.replicas.values()) if (this.isRequired(link)) seq = Math.min(seq, link.acked);
    if (seq > this.#committed) this.#committed = seq;
  }
}

function isSelf(recorded: number | undefined, { self, durability }: ReplicationLogOptions): boolean {
  return durability === 'memory' ? recorded === self.generation : recorded !== undefined;
}

function stays({ isInIsr, isWanted, isLeaving }: ReplicaProgress): boolean {
  return isInIsr && isWanted && !isLeaving;
}

/** The record should name it. */
function belongs(link: ReplicaProgress): boolean {
  return link.isJoining || stays(link);
}

/** The copy is where our last step has left it. */
function isStepOf({ snapshot }: ReplicaProgress, standing: ReplicaStatus): boolean {
  return snapshot !== undefined && standing.snapshot === snapshot.snapshot && standing.step === snapshot.step - 1;
}
