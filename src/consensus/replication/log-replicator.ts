/**
 * Sending side of the leader: brings followers to its log, by appends or a snapshot, and computes what a majority has.
 * Loss is repaired by heartbeats.
 */
import type { NodeId } from '../../base/ids.ts';
import { appendEntriesMax } from '../../messages/consensus.ts';
import type { ConsensusMessageOf } from '../election/election.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { PeerProgress } from './peer-progress.ts';
import type { LogEntry } from '../state/log-entry.ts';
import type { GroupMember } from '../state/state-machine.ts';
import type { HeartbeatRounds } from './heartbeat-rounds.ts';
import { chunkAt } from '../state/state-bytes.ts';

/** How far a member is, as the leader knows it. */
export type GroupMemberProgress = {
  readonly id: NodeId;
  readonly standing: GroupMember['standing'];
  readonly matchIndex: number;
  /** Near enough to the end of the log, and heard of lately: it can be promoted, or take over. */
  readonly caughtUp: boolean;
  readonly health: number;
};

/** So far behind, a member is still said to have caught up: entries are always under way. */
const lagEntriesMax = 256;
const quietTicksMax = 5;

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

  /** A new round; also what tells a member that it lacks something, and us that it lives. */
  heartbeat(): void {
    const { outbox, commitIndex } = this.#state;
    this.#rounds.begin(outbox.nowMs);
    for (const [id, peer] of this.#peers) {
      if (peer.removedBy !== undefined && peer.removedBy <= commitIndex && !this.#isHeard(peer)) {
        this.#peers.delete(id);
        continue;
      }
      this.#sendEmpty(id, peer);
      if (peer.snapshotTransfer !== undefined && ++peer.snapshotTransfer.idleTicks >= quietTicksMax)
        this.#sendPart(id, peer);
    }
  }

  /** Whatever can be sent now. */
  send(): void {
    for (const [id, peer] of this.#peers) this.#sendTo(id, peer);
  }

  onAppendReply(from: NodeId, message: ConsensusMessageOf<'appendReply'>): void {
    const peer = this.#peers.get(from);
    if (peer === undefined) return;
    this.#heard(peer, message.round, message.health);
    if (message.ok) this.#matched(from, peer, message);
    else this.#refused(peer, message);
  }

  onSnapshotReply(from: NodeId, { round, health, lastIndex, offset }: ConsensusMessageOf<'snapshotReply'>): void {
    const peer = this.#peers.get(from);
    if (peer === undefined) return;
    this.#heard(peer, round, health);
    const { snapshotTransfer } = peer;
    if (snapshotTransfer === undefined || snapshotTransfer.snapshot.index !== lastIndex) return;
    // The part that was sent last is waited for; heartbeats send it again when it seems lost.
    if (offset > snapshotTransfer.snapshot.state.length || offset === snapshotTransfer.offset) return;
    snapshotTransfer.offset = offset;
    if (offset < snapshotTransfer.snapshot.state.length) this.#sendPart(from, peer);
  }

  /** What a majority of the configured voters has on its disks. */
  committableIndex(): number {
    const { self, durability } = this.#state;
    return this.#majorityOf((id) => (id === self ? durability.index : (this.#peers.get(id)?.match ?? 0)));
  }

  /** The beginning of the last round that a majority has answered. */
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
    if (peer === undefined || peer.state !== 'stream' || !this.#isHeard(peer)) return false;
    // Who does not know yet that it is a member votes for nobody: as one of two voters it would end the group.
    return peer.match >= members.index && log.lastIndex - peer.match <= lagEntriesMax;
  }

  /** Of the other members. */
  progress(): readonly GroupMemberProgress[] {
    return this.#state.members.members.flatMap(({ id, standing }) => {
      const peer = this.#peers.get(id);
      if (peer === undefined) return [];
      return [{ id, standing, matchIndex: peer.match, caughtUp: this.isCaughtUp(id), health: peer.health }];
    });
  }

  /** No answer until now proves anything any more. */
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
    // Asked for in every step, and there are few voters: looking at each pair costs less than sorting a list.
    for (const candidate of voters) {
      const least = value(candidate);
      if (least <= reached) continue;
      let count = 0;
      for (const other of voters) if (value(other) >= least) count += 1;
      if (count >= majority) reached = least;
    }
    return reached;
  }

  #isHeard({ heardMs }: PeerProgress): boolean {
    const { outbox, options } = this.#state;
    return outbox.nowMs - heardMs < options.electionTimeoutMs;
  }

  #heard(peer: PeerProgress, round: number, health: number): void {
    peer.heardMs = this.#state.outbox.nowMs;
    peer.health = health;
    const beganMs = this.#rounds.beganMs(round);
    if (beganMs === undefined || round <= peer.ackedRound) return;
    peer.ackedRound = round;
    peer.ackedMs = beganMs;
  }

  #matched(from: NodeId, peer: PeerProgress, { index, prevIndex }: ConsensusMessageOf<'appendReply'>): void {
    const { lastIndex } = this.#state.log;
    if (index > lastIndex || prevIndex > lastIndex) return;
    if (peer.state === 'snapshot') {
      if (index < peer.next - 1) return;
      peer.stream();
    } else if (peer.state === 'probe') {
      peer.stream();
      peer.next = Math.max(prevIndex, index, peer.match) + 1;
    }
    peer.matched(index);
    if (peer.removedBy !== undefined && peer.match >= peer.removedBy) this.#peers.delete(from);
  }

  #refused(peer: PeerProgress, { prevIndex, index, hintTerm }: ConsensusMessageOf<'appendReply'>): void {
    const { log } = this.#state;
    if (peer.state === 'snapshot' || prevIndex < peer.match || prevIndex > log.lastIndex) return;
    if (peer.state === 'probe' && prevIndex !== peer.next - 1) return;
    if (index < log.base.index) return peer.probeFrom(Math.min(prevIndex, index + 1));
    const shared = log.lastNotAfter(index, hintTerm);
    // Below the base nothing is known: a snapshot is needed.
    const next = shared.term > hintTerm ? log.base.index : shared.index + 1;
    peer.probeFrom(Math.max(1, Math.min(prevIndex, next)));
  }

  #sendTo(id: NodeId, peer: PeerProgress): void {
    const { log, options, commitIndex } = this.#state;
    if (peer.state === 'snapshot') return;
    if (peer.next - 1 < log.base.index) return this.#install(id, peer);
    if (peer.next > log.lastIndex) {
      // Who waits for nothing else is told at once how far agreement has come.
      if (peer.state === 'stream' && peer.idle && peer.sentCommit < commitIndex) this.#sendEmpty(id, peer);
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
    // Who gets a state first is only asked whether it lives.
    const prevIndex = peer.next - 1 < log.base.index || peer.state === 'snapshot' ? 0 : peer.next - 1;
    const prevTerm = prevIndex === 0 ? 0 : (log.termAt(prevIndex) as number);
    const records = entries.map(({ encoded }) => encoded);
    const round = this.#rounds.current;
    peer.sentCommit = commitIndex;
    outbox.sendImmediately(to, {
      kind: 'append',
      group,
      term,
      round,
      prevIndex,
      prevTerm,
      commitIndex,
      entries: records,
    });
  }

  #sendEmpty(to: NodeId, peer: PeerProgress): void {
    this.#sendEntries(to, peer, []);
  }

  #install(id: NodeId, peer: PeerProgress): void {
    peer.install(this.#state.snapshot);
    this.#sendPart(id, peer);
  }

  #sendPart(to: NodeId, peer: PeerProgress): void {
    const { outbox, group, term } = this.#state;
    if (peer.snapshotTransfer === undefined) return;
    const { snapshot, offset } = peer.snapshotTransfer;
    peer.snapshotTransfer.idleTicks = 0;
    const { index: lastIndex, term: lastTerm, members, state } = snapshot;
    const chunk = chunkAt(state, offset);
    const about = { lastIndex, lastTerm, members, totalBytes: state.length, checksum: state.checksum };
    const round = this.#rounds.current;
    outbox.sendImmediately(to, { kind: 'snapshotChunk', group, term, round, ...about, offset, chunk });
  }
}
