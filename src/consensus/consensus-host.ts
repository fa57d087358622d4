/**
 * Runs the consensus machine on ports, applies committed entries to the state machine, completes pending calls. Decides
 * nothing itself. While `leadership.isLeading()` is true, reads of the state machine are linearizable without a barrier.
 */
import { assert } from '../base/assert.ts';
import { type Done, failure, success } from '../base/errors.ts';
import { fenceOf } from '../base/fence.ts';
import type { NodeId } from '../base/ids.ts';
import { Loop } from '../base/runtime/loop.ts';
import type { Address, Clock, Identity, Log, Store, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import { BoundedLru } from '../base/collections/bounded-lru.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { type ConsensusMessage, groupMembersMax } from '../messages/consensus.ts';
import { PendingCalls } from './pending-calls.ts';
import { Consensus } from './consensus.ts';
import type { ConsensusEvent } from './state/effects.ts';
import type { ConsensusInput } from './consensus-input.ts';
import type { LogEntry } from './state/log-entry.ts';
import { LeadershipPort } from './leadership-port.ts';
import { type ConsensusOptions, checkConsensusOptions } from './state/options.ts';
import type { ConsensusEffect, ConsensusTimer } from './state/effects.ts';
import type { Proposal } from './replication/proposal-queue.ts';
import type {
  CommittedResult,
  GroupChange,
  GroupHandle,
  GroupMember,
  GroupView,
  StateMachine,
} from './state/state-machine.ts';
import type { GroupMemberProgress } from './replication/log-replicator.ts';
import { type RecoveredState, recoverGroup } from './state/recovery.ts';
import { SnapshotBridge } from './snapshots/snapshot-bridge.ts';

export type ConsensusPorts = {
  readonly clock: Clock;
  readonly streams: Pick<Streams, 'notify'>;
  readonly store: Store;
  readonly random: Random;
  readonly log: Log;
};

export type ConsensusSettings = {
  readonly group: string;
  readonly self: Identity;
  readonly options: ConsensusOptions;
  /** The current address of a member, if known better than by the configuration. */
  readonly locate?: (id: NodeId) => Address | undefined;
};

export type ConsensusListener = {
  event(event: ConsensusEvent): void;
  /** The group stopped on this node because of a bug. */
  onHalt(error: unknown): void;
};

export class ConsensusHost<Result> implements GroupHandle<Result> {
  readonly leadership: LeadershipPort;
  readonly #ports: ConsensusPorts;
  readonly #settings: ConsensusSettings;
  readonly #stateMachine: StateMachine<Result>;
  readonly #listener: ConsensusListener;
  readonly #calls: PendingCalls;
  readonly #snapshots: SnapshotBridge;
  readonly #counters = new Map<string, number>();
  /** Addresses of the senders of messages. */
  readonly #lastAddresses = new BoundedLru<NodeId, Address>(4 * groupMembersMax);
  #machine: Consensus | undefined;
  #loop: Loop<ConsensusInput, ConsensusEffect, ConsensusTimer> | undefined;
  /** Index of the last entry that the state machine has applied. */
  #appliedIndex = 0;
  /** Proposals of this turn. */
  #batch: Proposal[] = [];
  #stopped = false;

  constructor(
    ports: ConsensusPorts,
    settings: ConsensusSettings,
    stateMachine: StateMachine<Result>,
    listener: ConsensusListener,
  ) {
    checkConsensusOptions(settings.options);
    this.#ports = ports;
    this.#settings = settings;
    this.#stateMachine = stateMachine;
    this.#listener = listener;
    this.#calls = new PendingCalls(ports.clock);
    this.#snapshots = new SnapshotBridge({
      clock: ports.clock,
      stateMachine,
      onPart: (number, part) => this.#loop?.feed({ kind: 'snapshotPart', number, part }),
      onFailed: (error) => this.#halt(error),
    });
    this.leadership = new LeadershipPort(
      () => this.#machine?.leadershipView ?? { leader: undefined, term: 0, fence: undefined },
      () => this.#loop !== undefined && this.#machine?.isLeading(ports.clock.nowMs()) === true,
    );
  }

  /** Recovers the group from disk; `fresh` if there is nothing. Ends with STORE_CORRUPT if it is damaged. */
  start(done: Done<{ readonly fresh: boolean }>): void {
    recoverGroup(this.#ports.store, this.#settings.group, (outcome) => {
      if (this.#stopped) return done(failure('CANCELLED', 'the group was stopped'));
      if (!outcome.ok) return done(outcome);
      const { snapshot, fresh } = outcome.value;
      const begin = (): void => {
        this.#begin(outcome.value);
        done(success({ fresh }));
      };
      if (snapshot.index === 0) return begin();
      this.#snapshots.restoreAll(snapshot.state, (given) => (given.ok ? begin() : done(given)));
    });
  }

  /** Bootstraps a new group with the same members on each of them. PRECONDITION if the group already exists. */
  bootstrap(members: readonly GroupMember[], done: Done<void>): void {
    this.#request(bootstrapTimeoutMs, done, (call) => ({ kind: 'bootstrap', members, call }));
  }

  /** The transport has authenticated the sender, and the role matrix admits the message. */
  onMessage(from: Identity, message: ConsensusMessage): void {
    const { id, generation, host, port } = from;
    const known = this.#lastAddresses.peek(id);
    if (known?.host !== host || known.port !== port) this.#lastAddresses.set(id, { host, port });
    this.#loop?.feed({ kind: 'message', from: { id, generation }, message });
  }

  /** Local health of this node, 0 to 8. */
  healthChanged(score: number): void {
    this.#loop?.feed({ kind: 'health', score: Math.max(0, Math.min(8, score)) });
  }

  /** Proof that this process ended, not mere silence: the lease that it held ends. */
  onProcessGone(id: NodeId, generation: number): void {
    this.#loop?.feed({ kind: 'processGone', id, generation });
  }

  /** Sends, writes and applies nothing afterwards. Pending calls end with NETWORK_TIMEOUT. */
  stop(): void {
    this.#stopped = true;
    this.#end();
  }

  view(): GroupView {
    const { group } = this.#settings;
    const nothing = { members: [], leader: undefined, term: 0, commitIndex: 0, appliedIndex: 0 };
    return this.#machine?.view() ?? { group, ...nothing, self: 'outside' };
  }

  /** Progress of the other members; empty unless this node leads. */
  progress(): readonly GroupMemberProgress[] {
    return this.#machine?.progress() ?? [];
  }

  /** Counters by name; `rejected.<reason>` for ignored messages. */
  counters(): Readonly<Record<string, number>> {
    return { ...Object.fromEntries(this.#counters), ...this.#machine?.counters() };
  }

  propose(command: Uint8Array, timeoutMs: number, done: Done<CommittedResult<Result>>): void {
    const count = this.#batch.push({ call: this.#calls.open(timeoutMs, done), command });
    if (count === 1) this.#ports.clock.schedule(0, () => this.#proposeBatch());
    // The machine refuses more than this at once, so a larger batch has no use.
    else if (count > this.#settings.options.proposalsMax) this.#calls.runDeferred(() => this.#proposeBatch());
  }

  readBarrier(timeoutMs: number, done: Done<void>): void {
    this.#request(timeoutMs, done, (call) => ({ kind: 'readBarrier', call }));
  }

  change(change: GroupChange, timeoutMs: number, done: Done<void>): void {
    this.#request(timeoutMs, done, (call) => ({ kind: 'change', change, call }));
  }

  transfer(to: NodeId | undefined, timeoutMs: number, done: Done<void>): void {
    this.#request(timeoutMs, done, (call) => ({ kind: 'transfer', to, call }));
  }

  #begin(recovered: RecoveredState): void {
    const { clock, store, random } = this.#ports;
    const { group, self, options } = this.#settings;
    this.#appliedIndex = recovered.snapshot.index;
    const machine = new Consensus(
      { group, self: self.id, options, random: random.fork(`consensus/${group}`) },
      recovered,
    );
    this.#machine = machine;
    this.#loop = new Loop<ConsensusInput, ConsensusEffect, ConsensusTimer>(machine, {
      clock,
      store,
      perform: (effect) => this.#perform(effect),
      onHalt: (error) => this.#halt(error),
    });
    this.#loop.feed({ kind: 'start' });
  }

  #request<T>(timeoutMs: number, done: Done<T>, input: (call: number) => ConsensusInput): void {
    this.#calls.runDeferred(() => {
      const call = this.#calls.open(timeoutMs, done);
      if (this.#loop === undefined)
        this.#calls.end(call, failure('NOT_LEADER', 'the group is not running on this node', 'no'));
      else this.#loop.feed(input(call));
    });
  }

  #perform(effect: ConsensusEffect): void {
    switch (effect.kind) {
      case 'send':
        return this.#send(effect.to, effect.message);
      case 'durable':
        return this.#loop?.feed({ kind: 'durable' });
      case 'apply':
        return this.#apply(effect.entries);
      case 'captureSnapshot':
        assert(effect.index === this.#appliedIndex, 'a snapshot covers the last applied entry');
        return this.#snapshots.startCapture(effect.number);
      case 'captureNextPart':
        return this.#snapshots.captureNext();
      case 'dropCapture':
        return this.#snapshots.dropCapture();
      case 'restorePart':
        return this.#snapshots.restorePart(effect.part);
      case 'dropRestore':
        return this.#snapshots.dropRestore();
      case 'finishRestore':
        this.#appliedIndex = effect.index;
        return this.#snapshots.finishRestore();
      case 'callEnded':
        return this.#calls.end(effect.call, effect.outcome);
      case 'event':
        return this.#listener.event(effect.event);
      case 'leadership':
        return this.leadership.notify(effect.change);
    }
  }

  /** A message that cannot be sent is lost; heartbeats repair the loss. */
  #send(to: NodeId, message: ConsensusMessage): void {
    const address = this.#addressOf(to);
    if (address === undefined) return this.#count('unknownAddress');
    if (!this.#ports.streams.notify(address, encodeMessage(message))) this.#count('queueFull');
  }

  #addressOf(id: NodeId): Address | undefined {
    const located = this.#settings.locate?.(id) ?? this.#lastAddresses.peek(id);
    return located ?? this.#machine?.member(id);
  }

  #apply(entries: readonly LogEntry[]): void {
    for (const entry of entries) this.#applyOne(entry);
  }

  #proposeBatch(): void {
    const proposals = this.#batch;
    this.#batch = [];
    if (this.#loop !== undefined && proposals.length > 0) return this.#loop.feed({ kind: 'propose', proposals });
    const refused = failure('NOT_LEADER', 'the group is not running on this node', 'no');
    for (const { call } of proposals) this.#calls.end(call, refused);
  }

  #applyOne(entry: LogEntry): void {
    const { kind, index, term, call } = entry;
    assert(index === this.#appliedIndex + 1, 'entries are applied in order, each once');
    this.#appliedIndex = index;
    if (kind === 'command') {
      const result = this.#stateMachine.apply(entry);
      if (call === undefined) return;
      const committed: CommittedResult<Result> = { index, fence: fenceOf(term, index), result };
      this.#calls.end(call, success(committed));
    } else if (call !== undefined) this.#calls.end(call, success(undefined));
  }

  #halt(error: unknown): void {
    this.#ports.log('error', 'a consensus group stopped because of a bug', {
      group: this.#settings.group,
      error: String(error),
    });
    this.#end();
    this.#listener.onHalt(error);
  }

  #end(): void {
    this.#loop?.stop();
    this.#loop = undefined;
    this.#snapshots.stop();
    this.#calls.failAll(failure('NETWORK_TIMEOUT', 'this node is stopping'));
  }

  #count(name: string): void {
    this.#counters.set(name, (this.#counters.get(name) ?? 0) + 1);
  }
}

const bootstrapTimeoutMs = 10_000;
