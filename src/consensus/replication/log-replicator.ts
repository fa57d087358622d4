/**
 * Sending side of the leader: brings followers to its log, by appends or a snapshot, and computes what a majority has.
 * Loss is repaired by heartbeats.
 */
import type { NodeId } from '../../base/ids.ts';
import { appendEntriesMax } from '../../messages/consensus.ts';
import type { ConsensusMessageOf } from '../state/effects.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { PeerProgress } from './peer-progress.ts';
import type { LogEntry } from '../state/log-entry.ts';
import type { GroupMember } from '../state/state-machine.ts';
import type { HeartbeatRounds } from './heartbeat-rounds.ts';
import { chunkAt } from '../state/snapshot.ts';

/** Replication progress of a member, as the leader knows it. */
export type GroupMemberProgress = {
  readonly id: NodeId;
  readonly standing: GroupMember['standing'];
  readonly matchIndex: number;
  /** Near the end of the log and responsive: it can be promoted or take over leadership. */
  readonly caughtUp: boolean;
  readonly health: number;
};

/** Lag up to which a member counts as caught up, because entries are always in flight. */
const lagEntriesMax = 256;
const idleTicksMax = 5;

export class LogReplicator {
  readonly #state: ConsensusState;
  readonly #rounds: HeartbeatRounds;
  readonly #peers = new Map<NodeId, PeerProgress>();

  constructor(state: ConsensusState, rounds: HeartbeatRounds) {
    this.#state = state;
    this.#rounds = rounds;
    this.membersChanged();
  }

  get peers(): ReadonlyMap<NodeId, PeerProgress> {
    return this.#peers;
  }

  membersChanged(): void {
    const { members, self, log } = this.#state;
    for (const { id } of members.members) {
      if (id === self) continue;
      const known = this.#peers.get(id);
      if (known === undefined) this.#peers.set(id, new PeerProgress(log.lastIndex + 1));
      else known.removedBy = undefined;
    }
    for (const [id, peer] of this.#peers) {
      if (members.get(id) === undefined) peer.removedBy ??= members.index;
    }
  }

  /** Starts a round. It also detects members that lack entries or do not reply. */
  heartbeat(): void {
    const { outbox, commitIndex } = this.#state;
    this.#rounds.begin(outbox.nowMs);
    for (const [id, peer] of this.#peers) {
      if (peer.removedBy !== undefined && peer.removedBy <= commitIndex && !this.#isResponsive(peer)) {
        this.#peers.delete(id);
        continue;
      }
      this.#sendEmpty(id, peer);
      if (peer.snapshotTransfer !== undefined && ++peer.snapshotTransfer.idleTicks >= idleTicksMax)
        this.#sendChunk(id, peer);
    }
  }

  /** Sends to all members what their progress allows. */
  send(): void {
    for (const [id, peer] of this.#peers) this.#sendTo(id, peer);
  }

  onAppendReply(from: NodeId, message: ConsensusMessageOf<'appendEntriesReply'>): void {
    const peer = this.#peers.get(from);
    if (peer === undefined) return;
    this.#observeReply(peer, message.round, message.health);
    if (message.ok) this.#onMatch(from, peer, message);
    else this.#onMismatch(peer, message);
  }

  onSnapshotReply(
    from: NodeId,
    { round, health, lastIndex, offset }: ConsensusMessageOf<'installSnapshotReply'>,
  ): void {
    const peer = this.#peers.get(from);
    if (peer === undefined) return;
    this.#observeReply(peer, round, health);
    const { snapshotTransfer } = peer;
    if (snapshotTransfer === undefined || snapshotTransfer.snapshot.index !== lastIndex) return;
    // The chunk sent last is still awaited; heartbeats resend it when it seems lost.
    if (offset > snapshotTransfer.snapshot.state.length || offset === snapshotTransfer.offset) return;
    snapshotTransfer.offset = offset;
    if (offset < snapshotTransfer.snapshot.state.length) this.#sendChunk(from, peer);
  }

  /** The highest index that is durable on a majority of the voters. */
  committableIndex(): number {
    const { self, durability } = this.#state;
    return this.#majorityOf((id) => (id === self ? durability.index : (this.#peers.get(id)?.match ?? 0)));
  }

  /** Start of the last round that a majority acknowledged. */
  quorumSinceMs(nowMs: number): number {
    const { self } = this.#state;
    return this.#majorityOf((id) => (id === self ? nowMs : (this.#peers.get(id)?.ackedMs ?? -Infinity)));
  }

  isAnsweredByMajority(round: number): boolean {
    const { self } = this.#state;
    return this.#majorityOf((id) => (id === self ? Infinity : (this.#peers.get(id)?.ackedRound ?? 0))) >= round;
  }

  isCaughtUp(id: NodeId): boolean {
    const { log, members } = this.#state;
    const peer = this.#peers.get(id);
    if (peer === undefined || peer.state !== 'replicate' || !this.#isResponsive(peer)) return false;
    // A member that does not have the entry that adds it grants no vote: as one of two voters it would block the group.
    return peer.match >= members.index && log.lastIndex - peer.match <= lagEntriesMax;
  }

  /** Progress of the other members. */
  progress(): readonly GroupMemberProgress[] {
    return this.#state.members.members.flatMap(({ id, standing }) => {
      const peer = this.#peers.get(id);
      if (peer === undefined) return [];
      return [{ id, standing, matchIndex: peer.match, caughtUp: this.isCaughtUp(id), health: peer.health }];
    });
  }

  /** Replies received so far no longer count. */
  resetRounds(): void {
    this.#rounds.unfreeze();
    for (const peer of this.#peers.values()) {
      peer.ackedRound = 0;
      peer.ackedMs = -Infinity;
    }
  }

  /** The largest value that a majority of the voters reaches. */
  #majorityOf(value: (id: NodeId) => number): number {
    const { voters, majority } = this.#state.members;
    let reached = -Infinity;
    // Called in every step with few voters: comparing each pair costs less than sorting.
    for (const candidate of voters) {
      const least = value(candidate);
      if (least <= reached) continue;
      let count = 0;
      for (const other of voters) if (value(other) >= least) count += 1;
      if (count >= majority) reached = least;
    }
    return reached;
  }

  #isResponsive({ lastReplyMs }: PeerProgress): boolean {
    const { outbox, options } = this.#state;
    return outbox.nowMs - lastReplyMs < options.electionTimeoutMs;
  }

  #observeReply(peer: PeerProgress, round: number, health: number): void {
    peer.lastReplyMs = this.#state.outbox.nowMs;
    peer.health = health;
    const beganMs = this.#rounds.beganMs(round);
    if (beganMs === undefined || round <= peer.ackedRound) return;
    peer.ackedRound = round;
    peer.ackedMs = beganMs;
  }

  #onMatch(from: NodeId, peer: PeerProgress, { index, prevIndex }: ConsensusMessageOf<'appendEntriesReply'>): void {
    const { lastIndex } = this.#state.log;
    if (index > lastIndex || prevIndex > lastIndex) return;
    if (peer.state === 'snapshot') {
      if (index < peer.next - 1) return;
      peer.replicate();
    } else if (peer.state === 'probe') {
      peer.replicate();
      peer.next = Math.max(prevIndex, index, peer.match) + 1;
    }
    peer.acknowledged(index);
    if (peer.removedBy !== undefined && peer.match >= peer.removedBy) this.#peers.delete(from);
  }

  #onMismatch(peer: PeerProgress, { prevIndex, index, hintTerm }: ConsensusMessageOf<'appendEntriesReply'>): void {
    const { log } = this.#state;
    if (peer.state === 'snapshot' || prevIndex < peer.match || prevIndex > log.lastIndex) return;
    if (peer.state === 'probe' && prevIndex !== peer.next - 1) return;
    if (index < log.base.index) return peer.probeFrom(Math.min(prevIndex, index + 1));
    const shared = log.lastNotAfter(index, hintTerm);
    // Terms below the base are unknown: the follower needs a snapshot.
    const next = shared.term > hintTerm ? log.base.index : shared.index + 1;
    peer.probeFrom(Math.max(1, Math.min(prevIndex, next)));
  }

  #sendTo(id: NodeId, peer: PeerProgress): void {
    const { log, options, commitIndex } = this.#state;
    if (peer.state === 'snapshot') return;
    if (peer.next - 1 < log.base.index) return this.#install(id, peer);
    if (peer.next > log.lastIndex) {
      // With no append in flight the new commit index is sent at once.
      if (peer.state === 'replicate' && peer.idle && peer.sentCommit < commitIndex) this.#sendEmpty(id, peer);
      return;
    }
    if (peer.state === 'probe') {
      if (peer.probing) return;
      peer.probing = true;
      this.#sendEntries(id, peer, log.slice(peer.next, options.appendBytes, appendEntriesMax));
      return;
    }
    while (peer.next <= log.lastIndex && peer.hasRoom(options)) {
      const entries = log.slice(peer.next, options.appendBytes, appendEntriesMax);
      this.#sendEntries(id, peer, entries);
      let bytes = 0;
      for (const { encoded } of entries) bytes += encoded.length;
      peer.sent(peer.next + entries.length - 1, bytes);
    }
  }

  #sendEntries(to: NodeId, peer: PeerProgress, entries: readonly LogEntry[]): void {
    const { outbox, group, term, commitIndex, log } = this.#state;
    // To a member that receives a snapshot this is a heartbeat only.
    const prevIndex = peer.next - 1 < log.base.index || peer.state === 'snapshot' ? 0 : peer.next - 1;
    const prevTerm = prevIndex === 0 ? 0 : (log.termAt(prevIndex) as number);
    const encodedEntries = entries.map(({ encoded }) => encoded);
    const round = this.#rounds.current;
    peer.sentCommit = commitIndex;
    outbox.sendImmediately(to, {
      kind: 'appendEntries',
      group,
      term,
      round,
      prevIndex,
      prevTerm,
      commitIndex,
      entries: encodedEntries,
    });
  }

  #sendEmpty(to: NodeId, peer: PeerProgress): void {
    this.#sendEntries(to, peer, []);
  }

  #install(id: NodeId, peer: PeerProgress): void {
    peer.install(this.#state.snapshot);
    this.#sendChunk(id, peer);
  }

  #sendChunk(to: NodeId, peer: PeerProgress): void {
    const { outbox, group, term } = this.#state;
    if (peer.snapshotTransfer === undefined) return;
    const { snapshot, offset } = peer.snapshotTransfer;
    peer.snapshotTransfer.idleTicks = 0;
    const { index: lastIndex, term: lastTerm, members, state } = snapshot;
    const chunk = chunkAt(state, offset);
    const about = { lastIndex, lastTerm, members, totalBytes: state.length, checksum: state.checksum };
    const round = this.#rounds.current;
    outbox.sendImmediately(to, { kind: 'installSnapshot', group, term, round, ...about, offset, chunk });
  }
}
