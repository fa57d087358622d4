/**
 * Receiving side of the log: appends if the previous entry matches, truncates conflicts, replies when durable. Never
 * truncates a committed entry.
 */
import { isRemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ConsensusMessageOf } from '../state/effects.ts';
import { type LogEntry, decodeLogEntry } from '../state/log-entry.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { decodeConfiguration } from '../state/storage-format.ts';

export class RaftFollower {
  readonly #state: ConsensusState;

  constructor(state: ConsensusState) {
    this.#state = state;
  }

  /** The sender leads in the current term. False: the message is invalid and was ignored. */
  append(from: NodeId, message: ConsensusMessageOf<'appendEntries'>): boolean {
    const state = this.#state;
    const entries = entriesOf(message);
    if (entries === undefined) return false;
    const { prevIndex, prevTerm } = message;
    const { base } = state.log;
    // Entries up to the base are committed, so they are the same at every leader.
    if (prevIndex >= base.index && state.log.termAt(prevIndex) !== prevTerm) {
      this.#reject(from, message);
      return true;
    }
    const lastNew = prevIndex + entries.length;
    this.#store(prevIndex < base.index ? entries.slice(base.index - prevIndex) : entries);
    this.#advanceCommit(Math.min(message.commitIndex, lastNew));
    this.#acknowledge(from, message, lastNew);
    return true;
  }

  #store(entries: readonly LogEntry[]): void {
    const { log } = this.#state;
    const at = entries.findIndex(({ index, term }) => log.termAt(index) !== term);
    if (at < 0) return;
    const fresh = entries.slice(at);
    const [first] = fresh as [LogEntry];
    if (first.index <= log.lastIndex) this.#state.replaceTail(first.index, fresh);
    else this.#state.append(fresh);
  }

  #advanceCommit(index: number): void {
    const { log } = this.#state;
    this.#state.commitIndex = Math.max(this.#state.commitIndex, Math.min(index, log.lastIndex));
  }

  /** A heartbeat is acknowledged at once, even while a write is pending, if the current term is durable. */
  #acknowledge(
    from: NodeId,
    { entries, prevIndex, round }: ConsensusMessageOf<'appendEntries'>,
    lastNew: number,
  ): void {
    const { outbox, group, term, health, durability } = this.#state;
    const about = { group, term, round, ok: true, prevIndex, hintTerm: 0, health: Math.round(health) };
    if (entries.length === 0 && durability.term === term) {
      outbox.sendImmediately(from, {
        kind: 'appendEntriesReply',
        ...about,
        index: Math.min(prevIndex, durability.index),
      });
    } else {
      this.#state.persist();
      outbox.send(from, { kind: 'appendEntriesReply', ...about, index: lastNew });
    }
  }

  #reject(from: NodeId, { prevIndex, prevTerm, round }: ConsensusMessageOf<'appendEntries'>): void {
    const { outbox, group, term, log, health } = this.#state;
    const { index, term: hintTerm } = log.lastNotAfter(prevIndex, prevTerm);
    const about = { group, term, round, ok: false, prevIndex, index, hintTerm, health: Math.round(health) };
    this.#state.persist();
    outbox.send(from, { kind: 'appendEntriesReply', ...about });
  }
}

/** Undefined for invalid entries, or terms that no leader can have in its log. */
function entriesOf({
  entries,
  prevIndex,
  prevTerm,
  term,
}: ConsensusMessageOf<'appendEntries'>): readonly LogEntry[] | undefined {
  try {
    let last = prevTerm;
    const out = entries.map((encoded, i) => {
      const entry = decodeLogEntry(prevIndex + 1 + i, encoded);
      if (entry.kind === 'configuration') decodeConfiguration(entry.command);
      return entry;
    });
    for (const entry of out) {
      if (entry.term < last || entry.term > term) return undefined;
      last = entry.term;
    }
    return out;
  } catch (error) {
    if (isRemusterError(error)) return undefined;
    throw error;
  }
}
