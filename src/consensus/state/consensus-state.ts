/**
 * Term, vote, role, log, configuration and commit index of one voter. Term and vote are written here and nowhere else,
 * before any reply.
 */
import { assert } from '../../base/assert.ts';
import { fenceOf, termMax } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { StoreWrite } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { LeadershipView } from '../../base/registry.ts';
import type { ConsensusEvent } from './effects.ts';
import { DurabilityTracker } from './durability-tracker.ts';
import type { LogEntry } from './log-entry.ts';
import { ConfigurationLog } from './configuration-log.ts';
import type { ConsensusOptions } from './options.ts';
import { ConsensusOutbox } from './effects.ts';
import { ReplicatedLog } from './replicated-log.ts';
import type { RecoveredState } from './recovery.ts';
import type { Snapshot } from './snapshot.ts';
import {
  type StorageKeys,
  decodeConfiguration,
  logEntryWrites,
  storageKeys,
  hardStateWrite,
} from './storage-format.ts';

export type RaftRole = 'follower' | 'candidate' | 'leader';

export type ConsensusStateSettings = {
  readonly group: string;
  readonly self: NodeId;
  readonly options: ConsensusOptions;
  readonly random: Random;
};

/** Larger jumps of the term are rejected, so that a faulty peer cannot exhaust the terms. */
const termJumpMax = 65_536;

export class ConsensusState {
  readonly group: string;
  readonly self: NodeId;
  readonly options: ConsensusOptions;
  readonly random: Random;
  readonly keys: StorageKeys;
  readonly outbox = new ConsensusOutbox();
  readonly log: ReplicatedLog;
  readonly members: ConfigurationLog;
  readonly durability: DurabilityTracker;
  role: RaftRole = 'follower';
  leader: NodeId | undefined;
  commitIndex: number;
  appliedIndex: number;
  snapshot: Snapshot;
  /** Local health of this node, 0 to 8. */
  health = 0;
  /** The last write failed and is being retried: this voter grants nothing until it succeeds. */
  diskFailed = false;
  #term: number;
  #vote: NodeId | undefined;
  /** Not durable yet: written with the next write of this step, before any reply. */
  #hardStateChanged = false;

  constructor({ group, self, options, random }: ConsensusStateSettings, recovered: RecoveredState) {
    const { term, vote, snapshot, base, entries } = recovered;
    this.group = group;
    this.self = self;
    this.options = options;
    this.random = random;
    this.keys = storageKeys(group);
    this.#term = term;
    this.#vote = vote;
    this.snapshot = snapshot;
    this.commitIndex = snapshot.index;
    this.appliedIndex = snapshot.index;
    this.log = new ReplicatedLog(base, entries);
    this.members = new ConfigurationLog(snapshot);
    for (const entry of entries) this.#applyConfiguration(entry);
    this.durability = new DurabilityTracker(this.log.lastIndex, term);
  }

  get term(): number {
    return this.#term;
  }

  get vote(): NodeId | undefined {
    return this.#vote;
  }

  get isVoter(): boolean {
    return this.members.isVoter(this.self);
  }

  get leadershipView(): LeadershipView {
    const { leader, term } = this;
    return { leader, term, fence: leader === undefined ? undefined : fenceOf(term, 0) };
  }

  /** False for a term that no correct peer can have reached. */
  isPlausibleTerm(term: number): boolean {
    return term <= termMax && term <= this.#term + termJumpMax;
  }

  raiseTerm(term: number): void {
    assert(term > this.#term && term <= termMax, `the term must not change from ${this.#term} to ${term}`);
    this.#term = term;
    this.#vote = undefined;
    this.#hardStateChanged = true;
  }

  voteFor(id: NodeId): void {
    assert(this.#vote === undefined || this.#vote === id, 'a voter votes once per term');
    if (this.#vote === id) return;
    this.#vote = id;
    this.#hardStateChanged = true;
  }

  /** Writes what must be durable before the messages that follow. */
  persist(writes: readonly StoreWrite[] = []): void {
    if (this.#hardStateChanged) {
      this.#hardStateChanged = false;
      this.#write([hardStateWrite(this.keys, this.#term, this.#vote), ...writes]);
    } else if (writes.length > 0) this.#write(writes);
  }

  /** Appends to the log, in memory and on disk. */
  append(entries: readonly LogEntry[]): void {
    for (const entry of entries) {
      this.log.append(entry);
      this.#applyConfiguration(entry);
    }
    this.persist(logEntryWrites(this.keys, entries));
  }

  /** Replaces uncommitted entries from this index on. */
  replaceTail(from: number, entries: readonly LogEntry[]): void {
    assert(from > this.commitIndex, `entry ${from} is committed and cannot be truncated`);
    const removed = this.log.truncate(from);
    this.members.truncate(from);
    this.durability.truncated(from - 1);
    for (const entry of entries) {
      this.log.append(entry);
      this.#applyConfiguration(entry);
    }
    const deletes = removed.slice(entries.length).map(({ index }) => ({ key: this.keys.entry(index), value: null }));
    this.persist([...logEntryWrites(this.keys, entries), ...deletes]);
  }

  emitEvent(
    type: ConsensusEvent['type'],
    why: string,
    about: { index?: number; leader?: NodeId | undefined } = {},
  ): void {
    const { group, term } = this;
    const { index = this.commitIndex, leader = this.leader } = about;
    this.outbox.put({ kind: 'event', event: { type, group, term, index, leader, why }, immediate: true });
  }

  #applyConfiguration({ kind, index, command }: LogEntry): void {
    if (kind === 'configuration' && index > this.snapshot.index)
      this.members.append(index, decodeConfiguration(command));
  }

  #write(writes: readonly StoreWrite[]): void {
    this.durability.submitted(this.log.lastIndex, this.#term);
    this.outbox.persist(writes);
  }
}
