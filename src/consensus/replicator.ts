/**
 * The sending half of a leader: brings the logs of all other members to the state of its own, and knows what a majority
 * of the configured voters has, and when it was heard last. Messages may be lost; each heartbeat asks for the entry
 * before the next one to be sent, and a member that lacks it says so.
 */
import type { NodeId } from '../base/ids.ts';
import { entriesInAppendMax } from '../messages/consensus.ts';
import type { MessageNamed } from './election.ts';
import type { GroupState } from './group-state.ts';
import { Progress } from './progress.ts';
import type { Entry } from './entry.ts';
import type { GroupMember } from './replica.ts';
import type { Rounds } from './rounds.ts';
import { chunkAt } from './state-bytes.ts';

/** How far a member is, as the leader knows it. */
export type MemberProgress = {
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

export class Replicator {
  readonly #state: GroupState;
  readonly #rounds: Rounds;
  readonly #peers = new Map<NodeId, Progress>();

  constructor(state: GroupState, rounds: Rounds) {
    this.#state = state;
    this.#rounds = rounds;
    this.membersChanged();
  }

  get peers(): ReadonlyMap<NodeId, Progress> {
    return this.#peers;
  }

  membersChanged(): void {
    const { members, self, log } = this.#state;
    for (const { id } of members.members) {
      if (id === self) continue;
      const known = this.#peers.get(id);
      if (known === undefined) this.#peers.set(id, new Progress(log.lastIndex + 1));
      else known.removedBy = undefined;
    }
    for (const [id, peer] of this.#peers) {
      if (members.get(id) === undefined) peer.removedBy ??= members.index;
    }
  }

  /** A new round; also what tells a member that it lacks something, and us that it lives. */
  heartbeat(): void {
    const { out, commitIndex } = this.#state;
    this.#rounds.begin(out.nowMs);
    for (const [id, peer] of this.#peers) {
      if (peer.removedBy !== undefined && peer.removedBy <= commitIndex && !this.#isHeard(peer)) {
        this.#peers.delete(id);
        continue;
      }
      this.#sendEmpty(id, peer);
      if (peer.transfer !== undefined && ++peer.transfer.quietTicks >= quietTicksMax) this.#sendPart(id, peer);
    }
  }

  /** Whatever can be sent now. */
  send(): void {
    for (const [id, peer] of this.#peers) this.#fill(id, peer);
  }

  replied(from: NodeId, message: MessageNamed<'appendReply'>): void {
    const peer = this.#peers.get(from);
    if (peer === undefined) return;
    this.#heard(peer, message.round, message.health);
    if (message.ok) this.#matched(from, peer, message);
    else this.#refused(peer, message);
  }

  snapshotReplied(from: NodeId, { round, health, lastIndex, offset }: MessageNamed<'snapshotReply'>): void {
    const peer = this.#peers.get(from);
    if (peer === undefined) return;
    this.#heard(peer, round, health);
    const { transfer } = peer;
    if (transfer === undefined || transfer.snapshot.index !== lastIndex) return;
    // The part that was sent last is waited for; heartbeats send it again when it seems lost.
    if (offset > transfer.snapshot.state.length || offset === transfer.offset) return;
    transfer.offset = offset;
    if (offset < transfer.snapshot.state.length) this.#sendPart(from, peer);
  }

  /** What a majority of the configured voters has on its disks. */
  agreedIndex(): number {
    const { self, durability } = this.#state;
    return this.#majorityOf((id) => (id === self ? durability.index : (this.#peers.get(id)?.match ?? 0)));
  }

  /** The beginning of the last round that a majority has answered. */
  quorumFromMs(nowMs: number): number {
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
  views(): readonly MemberProgress[] {
    return this.#state.members.members.flatMap(({ id, standing }) => {
      const peer = this.#peers.get(id);
      if (peer === undefined) return [];
      return [{ id, standing, matchIndex: peer.match, caughtUp: this.isCaughtUp(id), health: peer.health }];
    });
  }

  /** No answer until now proves anything any more. */
  forgetRounds(): void {
    this.#rounds.thaw();
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

  #isHeard({ heardMs }: Progress): boolean {
    const { out, options } = this.#state;
    return out.nowMs - heardMs < options.electionTimeoutMs;
  }

  #heard(peer: Progress, round: number, health: number): void {
    peer.heardMs = this.#state.out.nowMs;
    peer.health = health;
    const beganMs = this.#rounds.beganMs(round);
    if (beganMs === undefined || round <= peer.ackedRound) return;
    peer.ackedRound = round;
    peer.ackedMs = beganMs;
  }

  #matched(from: NodeId, peer: Progress, { index, prevIndex }: MessageNamed<'appendReply'>): void {
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

  #refused(peer: Progress, { prevIndex, index, hintTerm }: MessageNamed<'appendReply'>): void {
    const { log } = this.#state;
    if (peer.state === 'snapshot' || prevIndex < peer.match || prevIndex > log.lastIndex) return;
    if (peer.state === 'probe' && prevIndex !== peer.next - 1) return;
    if (index < log.base.index) return peer.probeFrom(Math.min(prevIndex, index + 1));
    const shared = log.lastWithin(index, hintTerm);
    // Below the base nothing is known: a snapshot is needed.
    const next = shared.term > hintTerm ? log.base.index : shared.index + 1;
    peer.probeFrom(Math.max(1, Math.min(prevIndex, next)));
  }

  #fill(id: NodeId, peer: Progress): void {
    const { log, options, commitIndex } = this.#state;
    if (peer.state === 'snapshot') return;
    if (peer.next - 1 < log.base.index) return this.#install(id, peer);
    if (peer.next > log.lastIndex) {
      // Who waits for nothing else is told at once how far agreement has come.
      if (peer.state === 'stream' && peer.idle && peer.toldCommit < commitIndex) this.#sendEmpty(id, peer);
      return;
    }
    if (peer.state === 'probe') {
      if (peer.probing) return;
      peer.probing = true;
      this.#sendEntries(id, peer, log.slice(peer.next, options.appendBytes, entriesInAppendMax));
      return;
    }
    while (peer.next <= log.lastIndex && peer.hasRoom(options)) {
      const entries = log.slice(peer.next, options.appendBytes, entriesInAppendMax);
      this.#sendEntries(id, peer, entries);
      let bytes = 0;
      for (const { record } of entries) bytes += record.length;
      peer.shipped(peer.next + entries.length - 1, bytes);
    }
  }

  #sendEntries(to: NodeId, peer: Progress, entries: readonly Entry[]): void {
    const { out, group, term, commitIndex, log } = this.#state;
    // Who gets a state first is only asked whether it lives.
    const prevIndex = peer.next - 1 < log.base.index || peer.state === 'snapshot' ? 0 : peer.next - 1;
    const prevTerm = prevIndex === 0 ? 0 : (log.termAt(prevIndex) as number);
    const records = entries.map(({ record }) => record);
    const round = this.#rounds.current;
    peer.toldCommit = commitIndex;
    out.sendAhead(to, { kind: 'append', group, term, round, prevIndex, prevTerm, commitIndex, entries: records });
  }

  #sendEmpty(to: NodeId, peer: Progress): void {
    this.#sendEntries(to, peer, []);
  }

  #install(id: NodeId, peer: Progress): void {
    peer.install(this.#state.snapshot);
    this.#sendPart(id, peer);
  }

  #sendPart(to: NodeId, peer: Progress): void {
    const { out, group, term } = this.#state;
    if (peer.transfer === undefined) return;
    const { snapshot, offset } = peer.transfer;
    peer.transfer.quietTicks = 0;
    const { index: lastIndex, term: lastTerm, members, state } = snapshot;
    const part = chunkAt(state, offset);
    const about = { lastIndex, lastTerm, members, totalBytes: state.length, checksum: state.checksum };
    const round = this.#rounds.current;
    out.sendAhead(to, { kind: 'snapshotChunk', group, term, round, ...about, offset, part });
  }
}
