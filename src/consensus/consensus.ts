/**
 * Who leads and what is agreed: a replicated log in the manner of Raft, as one machine. Each part owns one idea; this
 * file hands inputs to them and moves between the roles.
 *
 *   group-state   term, vote, log, members, outbox          election    pre-vote, votes, when to stand
 *   following     takes entries from a leader               promise     what a voter owes the leader
 *   leading       one term of leadership:                   eligibility, flapping: how long to wait
 *     replicator  brings others to the same log             snapshots, snapshot-receiver: a short log
 *     rounds      heartbeats, and the lease made of them    durability  what is surely on the disk
 *     proposals, reads, transfer
 *
 *   follower --silence, pre-vote--> candidate --majority, durable--> leader --no majority, higher term, disk--> follower
 *
 * It knows nothing of what the entries mean, and never reads a clock or a disk.
 */
import { RemusterError, failure, success } from '../base/errors.ts';
import { fenceOf } from '../base/fence.ts';
import type { NodeId } from '../base/ids.ts';
import type { Expired, Machine, PersistFailed } from '../base/loop.ts';
import type { LeadershipView } from '../base/registry.ts';
import type { ConsensusMessage } from '../messages/consensus.ts';
import { Alarm } from './alarm.ts';
import { Applier } from './applier.ts';
import type { ConsensusInput, Sender } from './consensus-input.ts';
import { Election, type MessageNamed } from './election.ts';
import { Flapping } from './flapping.ts';
import { Following } from './following.ts';
import { type GroupSettings, GroupState } from './group-state.ts';
import { Leading } from './leading.ts';
import type { Effect, Timer } from './outbox.ts';
import type { Proposal } from './proposals.ts';
import type { GroupChange, GroupMember, GroupView } from './replica.ts';
import type { MemberProgress } from './replicator.ts';
import type { Restored } from './restore.ts';
import { SnapshotReceiver } from './snapshot-receiver.ts';
import { noSnapshot } from './snapshot.ts';
import { Snapshots } from './snapshots.ts';
import { headWrite, metaWrite } from './stored.ts';

type Input = ConsensusInput | Expired<Timer> | PersistFailed;

export class Consensus implements Machine<Input, Effect> {
  readonly #state: GroupState;
  readonly #fresh: boolean;
  readonly #flapping = new Flapping();
  readonly #election: Election;
  readonly #following: Following;
  readonly #snapshots: Snapshots;
  readonly #receiver: SnapshotReceiver;
  readonly #tick: Alarm;
  readonly #applier: Applier;
  readonly #rejected = new Map<string, number>();
  #leading: Leading | undefined;
  /** Waits to hear that somebody else leads. */
  #handover: number | undefined;

  constructor(settings: GroupSettings, restored: Restored) {
    this.#state = new GroupState(settings, restored);
    this.#fresh = restored.fresh;
    this.#election = new Election(this.#state, this.#flapping, {
      standing: () => this.#forgetLeader(),
      won: () => this.#won(),
      superseded: (term) => this.#superseded(term),
      handedOver: (word) => this.#leading?.transfer.isHandedOver(word) === true,
    });
    this.#following = new Following(this.#state);
    this.#snapshots = new Snapshots(this.#state, restored.leftovers);
    this.#receiver = new SnapshotReceiver(this.#state, this.#snapshots);
    this.#tick = new Alarm(this.#state.out, 'tick');
    this.#applier = new Applier(this.#state, this.#snapshots);
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    this.#state.out.nowMs = nowMs;
    this.#handle(input);
    // A proposal that only joins those that wait changes nothing else.
    if (input.kind !== 'propose' || this.#leading?.proposals.isDue !== false) this.#settle();
    return this.#state.out.take();
  }

  view(): GroupView {
    const { group, members, leader, term, commitIndex, appliedIndex, self, role } = this.#state;
    const standing = members.get(self)?.standing;
    const what = role !== 'leader' && standing !== 'voter' ? (standing ?? 'outside') : role;
    return { group, members: members.members, leader, term, commitIndex, appliedIndex, self: what };
  }

  member(id: NodeId): GroupMember | undefined {
    return this.#state.members.get(id);
  }

  get leadershipView(): LeadershipView {
    return this.#state.leadershipView;
  }

  isLeading(nowMs: number): boolean {
    return this.#leading?.serves(nowMs) === true;
  }

  /** Of the other members; empty unless we lead. */
  progress(): readonly MemberProgress[] {
    return this.#leading?.replicator.views() ?? [];
  }

  counters(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#rejected);
  }

  #handle(input: Input): void {
    switch (input.kind) {
      case 'start':
        return this.#start();
      case 'bootstrap':
        return this.#bootstrap(input.members, input.call);
      case 'message':
        return this.#received(input.from, input.message);
      case 'propose':
        return this.#propose(input.proposals);
      case 'barrier':
        return this.#barrier(input.call);
      case 'change':
        return this.#change(input.change, input.call);
      case 'transfer':
        if (this.#leading === undefined) return this.#end(input.call, this.#notLeader());
        return this.#leading.transfer.start(input.to, input.call);
      case 'durable':
        return this.#durable();
      case 'snapshotPart':
        return this.#snapshots.part(input.number, input.part, () => this.#leading?.keepFrom() ?? Infinity);
      case 'health':
        this.#state.health = input.score;
        return this.#election.redraw();
      case 'gone':
        return this.#gone(input.id, input.generation);
      case 'expired':
        return this.#expired(input.timer);
      case 'persistFailed':
        return this.#diskFailed(input.error);
    }
  }

  /** What follows from whatever happened in this step. */
  #settle(): void {
    const state = this.#state;
    this.#leading?.settle();
    this.#applier.settle(this.#leading?.proposals);
    if (this.#leading?.announced === false && this.#leading.serves(state.out.nowMs)) this.#announce(this.#leading);
    this.#leading?.settleReads();
    this.#snapshots.settle();
    const isRemoved = state.members.get(state.self) === undefined && state.members.index <= state.commitIndex;
    if (this.#leading !== undefined && isRemoved) {
      this.#leading.transfer.farewell();
      this.#stepDown('it was removed from the group');
    }
    state.persist();
  }

  #start(): void {
    const { out, members } = this.#state;
    if (this.#fresh) return;
    // Nobody remembers what was promised before the restart.
    this.#election.promise.restarted(out.nowMs);
    if (members.members.length > 0) this.#election.wait();
  }

  #bootstrap(members: readonly GroupMember[], call: number): void {
    const state = this.#state;
    if (state.members.members.length > 0)
      return this.#end(call, new RemusterError('PRECONDITION', 'the group exists already'));
    if (!members.some(({ standing }) => standing === 'voter'))
      return this.#end(call, new RemusterError('PRECONDITION', 'a group needs a voter'));
    state.snapshot = { ...noSnapshot, members };
    state.members.reset(state.snapshot);
    state.persist([
      metaWrite(state.keys, state.term, state.vote),
      headWrite(state.keys, state.snapshot, state.log.base),
    ]);
    state.out.put({ kind: 'ended', call, outcome: success(undefined) });
    this.#election.hurry();
  }

  #received(from: Sender, message: ConsensusMessage): void {
    const state = this.#state;
    if (message.group !== state.group || from.id === state.self) return this.#reject('group');
    if (!state.believes(message.term)) return this.#reject('term');
    // Who cannot write can promise nothing, so it says nothing.
    if (state.diskFailed) return this.#reject('diskFailed');
    switch (message.kind) {
      case 'preVote':
        return this.#mayVote ? this.#election.askedToPreVote(from.id, message) : this.#reject('outside');
      case 'vote':
        return this.#mayVote ? this.#election.askedToVote(from.id, message) : this.#reject('outside');
      case 'preVoteReply':
        return this.#election.preVoted(from.id, message);
      case 'voteReply':
        return this.#election.voted(from.id, message);
      case 'append':
        if (this.#follow(from, message) && !this.#following.append(from.id, message)) this.#reject('malformed');
        return;
      case 'snapshotChunk':
        if (this.#follow(from, message) && !this.#receiver.part(from.id, message)) this.#reject('malformed');
        return;
      case 'appendReply':
        if (this.#isAnswer(message.term)) this.#leading?.replicator.replied(from.id, message);
        return;
      case 'snapshotReply':
        if (this.#isAnswer(message.term)) this.#leading?.replicator.snapshotReplied(from.id, message);
        return;
      case 'takeOver':
        if (message.term !== state.term || from.id !== state.leader || state.role !== 'follower') return;
        return this.#election.takeOver({ term: message.term, round: message.round });
    }
  }

  /** Who knows of no members is no voter, whatever it was before it lost its memory. */
  get #mayVote(): boolean {
    return this.#state.members.members.length > 0;
  }

  /** True if the sender leads in our term; we follow it then. */
  #follow(from: Sender, message: MessageNamed<'append' | 'snapshotChunk'>): boolean {
    const state = this.#state;
    const { term } = message;
    if (term < state.term) {
      // It names no round: the sender may lead in our term by now, and must not take an old round for one of its own.
      const about = { group: state.group, term: state.term, round: 0, prevIndex: 0, index: 0, hintTerm: 0, health: 0 };
      state.persist();
      state.out.send(from.id, { kind: 'appendReply', ...about, ok: false });
      return false;
    }
    if (term > state.term) this.#superseded(term);
    if (state.role === 'leader' || (state.leader !== undefined && state.leader !== from.id)) {
      this.#reject('secondLeader');
      return false;
    }
    if (this.#election.promise.isFromTheDead(state.out.nowMs, from)) {
      this.#reject('fromTheDead');
      return false;
    }
    state.role = 'follower';
    if (state.leader !== from.id) this.#setLeader(from.id);
    this.#election.promise.heard(state.out.nowMs, from, term, message.round);
    this.#election.wait();
    return true;
  }

  #isAnswer(term: number): boolean {
    if (term > this.#state.term) this.#superseded(term);
    return term === this.#state.term;
  }

  #propose(proposals: readonly Proposal[]): void {
    const refusal = this.#leading === undefined ? this.#notLeader() : this.#leading.refusal();
    for (const proposal of proposals) {
      if (refusal === undefined) this.#leading?.proposals.add(proposal);
      else this.#end(proposal.call, refusal);
    }
  }

  #barrier(call: number): void {
    if (this.#leading === undefined || this.#leading.transfer.hasAsked) this.#end(call, this.#notLeader());
    else this.#leading.reads.ask(call);
  }

  #change(change: GroupChange, call: number): void {
    const refusal = this.#leading === undefined ? this.#notLeader() : this.#leading.change(change, call);
    if (refusal !== undefined) this.#end(call, refusal);
  }

  #notLeader(): RemusterError {
    const { leader, members } = this.#state;
    const name = leader === undefined ? undefined : (members.get(leader)?.name ?? leader);
    return new RemusterError('NOT_LEADER', name === undefined ? 'nobody leads at this moment' : `${name} leads`);
  }

  #durable(): void {
    const { durability } = this.#state;
    durability.returned();
    if (this.#state.diskFailed) {
      this.#state.diskFailed = false;
      if (this.#state.role !== 'leader') this.#election.giveUp();
    }
    this.#election.durable();
    this.#snapshots.durable();
    this.#receiver.durable();
  }

  #expired(timer: Timer): void {
    if (timer.kind === 'election' && this.#election.expired(timer)) this.#silence();
    else if (timer.kind === 'tick' && this.#tick.expired(timer)) this.#beat();
    else if (timer.kind === 'apply') this.#applier.expired(timer);
  }

  #silence(): void {
    const { leader } = this.#state;
    if (leader !== undefined) {
      this.#state.tell('leader.lost', 'nothing was heard of it', { leader });
      this.#setLeader(undefined);
    }
    this.#election.stand();
  }

  #gone(id: NodeId, generation: number): void {
    if (!this.#election.promise.isGone(this.#state.out.nowMs, id, generation) || this.#state.role === 'leader') return;
    if (this.#state.leader === id) {
      this.#state.tell('leader.lost', 'its process is gone', { leader: id });
      this.#setLeader(undefined);
    }
    this.#election.hurry();
  }

  #won(): void {
    const state = this.#state;
    state.role = 'leader';
    this.#setLeader(state.self);
    this.#election.rest();
    this.#leading = new Leading(state, this.#flapping);
    this.#tick.set(state.out.nowMs + state.options.heartbeatMs);
  }

  #announce(leading: Leading): void {
    const { out, term, self } = this.#state;
    leading.announced = true;
    this.#state.tell('leader.elected', 'a majority voted for it', { leader: self });
    out.put({ kind: 'leadership', change: { kind: 'became', fence: fenceOf(term, 0) }, ahead: true });
  }

  #beat(): void {
    const { out, options } = this.#state;
    const leading = this.#leading;
    if (leading === undefined) return;
    if (this.#tick.lateMs > options.heartbeatMs) leading.slept();
    if (leading.isForsaken(out.nowMs)) return this.#stepDown('no majority answered');
    leading.tick();
    this.#tick.set(out.nowMs + options.heartbeatMs);
  }

  #diskFailed(error: RemusterError): void {
    if (this.#state.diskFailed) return;
    this.#state.diskFailed = true;
    if (this.#leading === undefined) return;
    this.#leading.transfer.farewell();
    this.#stepDown(`its disk failed: ${error.code}`);
  }

  #superseded(term: number): void {
    if (this.#leading !== undefined) this.#stepDown('another voter has a higher term');
    this.#forgetLeader();
    this.#state.raiseTerm(term);
    this.#state.role = 'follower';
    this.#election.giveUp();
  }

  #stepDown(reason: string): void {
    const { self, out } = this.#state;
    const leading = this.#leading;
    if (leading === undefined) return;
    this.#leading = undefined;
    this.#tick.clear();
    this.#state.role = 'follower';
    leading.proposals.abandon();
    leading.reads.abandon();
    this.#handover = leading.transfer.call ?? this.#handover;
    this.#setLeader(undefined);
    this.#election.wait();
    if (!leading.announced) return;
    this.#state.tell('leader.lost', reason, { leader: self });
    out.put({ kind: 'leadership', change: { kind: 'lost', reason }, ahead: true });
  }

  #forgetLeader(): void {
    if (this.#state.leader !== undefined) this.#setLeader(undefined);
  }

  #setLeader(leader: NodeId | undefined): void {
    const state = this.#state;
    state.leader = leader;
    state.out.put({ kind: 'leadership', change: { kind: 'changed' }, ahead: true });
    if (leader === undefined) return;
    this.#election.redraw();
    if (this.#flapping.led(state.out.nowMs, leader, state.term))
      state.tell('leader.flapping', 'leadership moves too often', { leader });
    if (leader !== state.self) state.tell('leader.elected', 'it was heard as leader', { leader });
    if (this.#handover === undefined) return;
    const failed = failure('DEADLINE', 'this node was elected again');
    const outcome = leader === state.self ? failed : success(undefined);
    state.out.put({ kind: 'ended', call: this.#handover, outcome, ahead: true });
    this.#handover = undefined;
  }

  #end(call: number, error: RemusterError): void {
    this.#state.out.put({ kind: 'ended', call, outcome: { ok: false, error }, ahead: true });
  }

  #reject(reason: string): void {
    const name = `rejected.${reason}`;
    this.#rejected.set(name, (this.#rejected.get(name) ?? 0) + 1);
  }
}
