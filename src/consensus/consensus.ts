/**
 * The Raft machine of one voter: hands inputs to its parts and moves between follower, candidate and leader. Never
 * reads a clock or a disk, never looks into a command.
 *
 *   consensus-state  term, vote, log, configuration      election/    pre-vote, votes, election delay
 *   follower         accepts entries from a leader       snapshots/   snapshots and log compaction
 *   leader           one term: replication, heartbeats, leader lease, proposals, reads, transfer
 *
 *   follower --silence, pre-vote--> candidate --majority, durable--> leader --no majority, higher term, disk--> follower
 */
import { RemusterError, failure, success } from '../base/errors.ts';
import { fenceOf } from '../base/fence.ts';
import type { NodeId } from '../base/ids.ts';
import type { TimerExpired, Machine, PersistFailed } from '../base/runtime/loop.ts';
import type { LeadershipView } from '../base/registry.ts';
import type { ConsensusMessage } from '../messages/consensus.ts';
import { RearmableTimer } from './state/rearmable-timer.ts';
import { LogApplier } from './replication/log-applier.ts';
import type { ConsensusInput, MessageSender } from './consensus-input.ts';
import { Election } from './election/election.ts';
import { LeaderFlapping } from './election/leader-flapping.ts';
import { RaftFollower } from './replication/follower.ts';
import { type ConsensusStateSettings, ConsensusState } from './state/consensus-state.ts';
import { RaftLeader } from './replication/leader.ts';
import type { ConsensusMessageOf, ConsensusStepEffect, ConsensusTimer } from './state/effects.ts';
import type { Proposal } from './replication/proposal-queue.ts';
import type { GroupChange, GroupMember, GroupView } from './state/state-machine.ts';
import type { GroupMemberProgress } from './replication/log-replicator.ts';
import type { RecoveredState } from './state/recovery.ts';
import { SnapshotReceiver } from './snapshots/snapshot-receiver.ts';
import { noSnapshot } from './state/snapshot.ts';
import { SnapshotManager } from './snapshots/snapshot-manager.ts';
import { snapshotHeadWrite, hardStateWrite } from './state/storage-format.ts';

type Input = ConsensusInput | TimerExpired<ConsensusTimer> | PersistFailed;

export class Consensus implements Machine<Input, ConsensusStepEffect> {
  readonly #state: ConsensusState;
  readonly #fresh: boolean;
  readonly #flapping = new LeaderFlapping();
  readonly #election: Election;
  readonly #follower: RaftFollower;
  readonly #snapshots: SnapshotManager;
  readonly #receiver: SnapshotReceiver;
  readonly #tick: RearmableTimer;
  readonly #applier: LogApplier;
  readonly #rejected = new Map<string, number>();
  #leader: RaftLeader | undefined;
  /** A transfer that ends when another leader is known. */
  #transferCall: number | undefined;

  constructor(settings: ConsensusStateSettings, recovered: RecoveredState) {
    this.#state = new ConsensusState(settings, recovered);
    this.#fresh = recovered.fresh;
    this.#election = new Election(this.#state, this.#flapping, {
      started: () => this.#clearLeader(),
      won: () => this.#onElected(),
      superseded: (term) => this.#superseded(term),
      hasReleased: (lease) => this.#leader?.transfer.matches(lease) === true,
    });
    this.#follower = new RaftFollower(this.#state);
    this.#snapshots = new SnapshotManager(this.#state, recovered.obsoleteKeys);
    this.#receiver = new SnapshotReceiver(this.#state, this.#snapshots);
    this.#tick = new RearmableTimer(this.#state.outbox, 'tick');
    this.#applier = new LogApplier(this.#state, this.#snapshots);
  }

  step(nowMs: number, input: Input): readonly ConsensusStepEffect[] {
    this.#state.outbox.nowMs = nowMs;
    this.#handle(input);
    // A proposal that only joins a waiting batch changes nothing else.
    if (input.kind !== 'propose' || this.#leader?.proposals.isDue !== false) this.#advance();
    return this.#state.outbox.take();
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
    return this.#leader?.canServe(nowMs) === true;
  }

  /** Progress of the other members; empty unless this voter leads. */
  progress(): readonly GroupMemberProgress[] {
    return this.#leader?.replicator.progress() ?? [];
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
        return this.#onMessage(input.from, input.message);
      case 'propose':
        return this.#propose(input.proposals);
      case 'readBarrier':
        return this.#barrier(input.call);
      case 'change':
        return this.#change(input.change, input.call);
      case 'transfer':
        if (this.#leader === undefined) return this.#end(input.call, this.#notLeader());
        return this.#leader.transfer.start(input.to, input.call);
      case 'durable':
        return this.#durable();
      case 'snapshotPart':
        return this.#snapshots.onPart(input.number, input.part, () => this.#leader?.compactionFloor() ?? Infinity);
      case 'health':
        this.#state.health = input.score;
        return this.#election.resetDelay();
      case 'processGone':
        return this.#onProcessGone(input.id, input.generation);
      case 'expired':
        return this.#expired(input.timer);
      case 'persistFailed':
        return this.#diskFailed(input.error);
    }
  }

  /** What every input may cause: appends, commits, reads, snapshots. */
  #advance(): void {
    const state = this.#state;
    this.#leader?.advance();
    this.#applier.applyCommitted(this.#leader?.proposals);
    if (this.#leader?.announced === false && this.#leader.canServe(state.outbox.nowMs)) this.#announce(this.#leader);
    this.#leader?.advanceReads();
    this.#snapshots.startIfDue();
    const isRemoved = state.members.get(state.self) === undefined && state.members.index <= state.commitIndex;
    if (this.#leader !== undefined && isRemoved) {
      this.#leader.transfer.releaseOnStepDown();
      this.#stepDown('the leader was removed from the group');
    }
    state.persist();
  }

  #start(): void {
    const { outbox, members } = this.#state;
    if (this.#fresh) return;
    // The voter lease is not stored: assume that it was renewed just before the restart.
    this.#election.voterLease.onRestart(outbox.nowMs);
    if (members.members.length > 0) this.#election.wait();
  }

  #bootstrap(members: readonly GroupMember[], call: number): void {
    const state = this.#state;
    if (state.members.members.length > 0)
      return this.#end(call, new RemusterError('PRECONDITION', 'the group already exists', 'no'));
    if (!members.some(({ standing }) => standing === 'voter'))
      return this.#end(call, new RemusterError('PRECONDITION', 'a group needs at least one voter', 'no'));
    state.snapshot = { ...noSnapshot, members };
    state.members.reset(state.snapshot);
    state.persist([
      hardStateWrite(state.keys, state.term, state.vote),
      snapshotHeadWrite(state.keys, state.snapshot, state.log.base),
    ]);
    state.outbox.put({ kind: 'callEnded', call, outcome: success(undefined) });
    this.#election.startSoon();
  }

  #onMessage(from: MessageSender, message: ConsensusMessage): void {
    const state = this.#state;
    if (message.group !== state.group || from.id === state.self) return this.#reject('group');
    if (!state.isPlausibleTerm(message.term)) return this.#reject('term');
    // A voter that cannot write can promise nothing, so it sends no reply.
    if (state.diskFailed) return this.#reject('diskFailed');
    switch (message.kind) {
      case 'preVote':
        return this.#mayVote ? this.#election.onPreVoteRequest(from.id, message) : this.#reject('outside');
      case 'requestVote':
        return this.#mayVote ? this.#election.onVoteRequest(from.id, message) : this.#reject('outside');
      case 'preVoteReply':
        return this.#election.onPreVoteReply(from.id, message);
      case 'requestVoteReply':
        return this.#election.onVoteReply(from.id, message);
      case 'appendEntries':
        if (this.#follow(from, message) && !this.#follower.append(from.id, message)) this.#reject('malformed');
        return;
      case 'installSnapshot':
        if (this.#follow(from, message) && !this.#receiver.onChunk(from.id, message)) this.#reject('malformed');
        return;
      case 'appendEntriesReply':
        if (this.#isCurrentReply(message.term)) this.#leader?.replicator.onAppendReply(from.id, message);
        return;
      case 'installSnapshotReply':
        if (this.#isCurrentReply(message.term)) this.#leader?.replicator.onSnapshotReply(from.id, message);
        return;
      case 'timeoutNow':
        if (message.term !== state.term || from.id !== state.leader || state.role !== 'follower') return;
        return this.#election.onTimeoutNow({ term: message.term, round: message.round });
    }
  }

  /** A node without a configuration is not a voter, even if it was one before it lost its disk. */
  get #mayVote(): boolean {
    return this.#state.members.members.length > 0;
  }

  /** True if the sender leads in the current term: this voter follows it then. */
  #follow(from: MessageSender, message: ConsensusMessageOf<'appendEntries' | 'installSnapshot'>): boolean {
    const state = this.#state;
    const { term } = message;
    if (term < state.term) {
      // No round: if the sender leads the current term by now, it must not take this reply for one of its own rounds.
      const about = { group: state.group, term: state.term, round: 0, prevIndex: 0, index: 0, hintTerm: 0, health: 0 };
      state.persist();
      state.outbox.send(from.id, { kind: 'appendEntriesReply', ...about, ok: false });
      return false;
    }
    if (term > state.term) this.#superseded(term);
    if (state.role === 'leader' || (state.leader !== undefined && state.leader !== from.id)) {
      this.#reject('secondLeader');
      return false;
    }
    if (this.#election.voterLease.isFromDeadProcess(state.outbox.nowMs, from)) {
      this.#reject('fromTheDead');
      return false;
    }
    state.role = 'follower';
    if (state.leader !== from.id) this.#setLeader(from.id);
    this.#election.voterLease.renew(state.outbox.nowMs, from, term, message.round);
    this.#election.wait();
    return true;
  }

  #isCurrentReply(term: number): boolean {
    if (term > this.#state.term) this.#superseded(term);
    return term === this.#state.term;
  }

  #propose(proposals: readonly Proposal[]): void {
    const refusal = this.#leader === undefined ? this.#notLeader() : this.#leader.proposalRefusal();
    for (const proposal of proposals) {
      if (refusal === undefined) this.#leader?.proposals.add(proposal);
      else this.#end(proposal.call, refusal);
    }
  }

  #barrier(call: number): void {
    if (this.#leader === undefined || this.#leader.transfer.hasReleasedLease) this.#end(call, this.#notLeader());
    else this.#leader.reads.request(call);
  }

  #change(change: GroupChange, call: number): void {
    const refusal = this.#leader === undefined ? this.#notLeader() : this.#leader.changeConfiguration(change, call);
    if (refusal !== undefined) this.#end(call, refusal);
  }

  #notLeader(): RemusterError {
    const { leader, members } = this.#state;
    const name = leader === undefined ? undefined : (members.get(leader)?.name ?? leader);
    const text = name === undefined ? 'the group has no leader at the moment' : `the leader is ${name}`;
    return new RemusterError('NOT_LEADER', text, 'no');
  }

  #durable(): void {
    const { durability } = this.#state;
    durability.completed();
    if (this.#state.diskFailed) {
      this.#state.diskFailed = false;
      if (this.#state.role !== 'leader') this.#election.abort();
    }
    this.#election.durable();
    this.#snapshots.durable();
    this.#receiver.durable();
  }

  #expired(timer: ConsensusTimer): void {
    if (timer.kind === 'election' && this.#election.expired(timer)) this.#onLeaderTimeout();
    else if (timer.kind === 'tick' && this.#tick.onExpired(timer)) this.#onTick();
    else if (timer.kind === 'apply') this.#applier.onExpired(timer);
  }

  #onLeaderTimeout(): void {
    const { leader } = this.#state;
    if (leader !== undefined) {
      this.#state.emitEvent('leader.lost', 'it sent nothing within the election timeout', { leader });
      this.#setLeader(undefined);
    }
    this.#election.start();
  }

  #onProcessGone(id: NodeId, generation: number): void {
    const { voterLease } = this.#election;
    if (!voterLease.onProcessGone(this.#state.outbox.nowMs, id, generation) || this.#state.role === 'leader') return;
    if (this.#state.leader === id) {
      this.#state.emitEvent('leader.lost', 'its process ended', { leader: id });
      this.#setLeader(undefined);
    }
    this.#election.startSoon();
  }

  #onElected(): void {
    const state = this.#state;
    state.role = 'leader';
    this.#setLeader(state.self);
    this.#election.stop();
    this.#leader = new RaftLeader(state, this.#flapping);
    this.#tick.set(state.outbox.nowMs + state.options.heartbeatMs);
  }

  #announce(raftLeader: RaftLeader): void {
    const { outbox, term, self } = this.#state;
    raftLeader.announced = true;
    this.#state.emitEvent('leader.elected', 'elected by a majority', { leader: self });
    outbox.put({ kind: 'leadership', change: { kind: 'elected', fence: fenceOf(term, 0) }, immediate: true });
  }

  #onTick(): void {
    const { outbox, options } = this.#state;
    const raftLeader = this.#leader;
    if (raftLeader === undefined) return;
    if (this.#tick.lateMs > options.heartbeatMs) raftLeader.onPause();
    if (raftLeader.hasLostQuorum(outbox.nowMs)) return this.#stepDown('no majority replied');
    raftLeader.tick();
    this.#tick.set(outbox.nowMs + options.heartbeatMs);
  }

  #diskFailed(error: RemusterError): void {
    if (this.#state.diskFailed) return;
    this.#state.diskFailed = true;
    if (this.#leader === undefined) return;
    this.#leader.transfer.releaseOnStepDown();
    this.#stepDown(`a write to its disk failed: ${error.code}`);
  }

  #superseded(term: number): void {
    if (this.#leader !== undefined) this.#stepDown('another voter has a higher term');
    this.#clearLeader();
    this.#state.raiseTerm(term);
    this.#state.role = 'follower';
    this.#election.abort();
  }

  #stepDown(reason: string): void {
    const { self, outbox } = this.#state;
    const raftLeader = this.#leader;
    if (raftLeader === undefined) return;
    this.#leader = undefined;
    this.#tick.clear();
    this.#state.role = 'follower';
    raftLeader.proposals.failAll();
    raftLeader.reads.failAll();
    this.#transferCall = raftLeader.transfer.call ?? this.#transferCall;
    this.#setLeader(undefined);
    this.#election.wait();
    if (!raftLeader.announced) return;
    this.#state.emitEvent('leader.lost', reason, { leader: self });
    outbox.put({ kind: 'leadership', change: { kind: 'lost', reason }, immediate: true });
  }

  #clearLeader(): void {
    if (this.#state.leader !== undefined) this.#setLeader(undefined);
  }

  #setLeader(leader: NodeId | undefined): void {
    const state = this.#state;
    state.leader = leader;
    state.outbox.put({ kind: 'leadership', change: { kind: 'changed' }, immediate: true });
    if (leader === undefined) return;
    this.#election.resetDelay();
    if (this.#flapping.onLeader(state.outbox.nowMs, leader, state.term))
      state.emitEvent('leader.flapping', 'the leader changes too often', { leader });
    if (leader !== state.self) state.emitEvent('leader.elected', 'first message of this leader', { leader });
    if (this.#transferCall === undefined) return;
    const failed = failure('DEADLINE', 'this node was elected again');
    const outcome = leader === state.self ? failed : success(undefined);
    state.outbox.put({ kind: 'callEnded', call: this.#transferCall, outcome, immediate: true });
    this.#transferCall = undefined;
  }

  #end(call: number, error: RemusterError): void {
    this.#state.outbox.put({ kind: 'callEnded', call, outcome: { ok: false, error }, immediate: true });
  }

  #reject(reason: string): void {
    const name = `rejected.${reason}`;
    this.#rejected.set(name, (this.#rejected.get(name) ?? 0) + 1);
  }
}
