/**
 * Receiving side of the log: appends if the previous entry matches, truncates conflicts, replies when durable. Never
 * truncates a committed entry.
 */
import { isRemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ConsensusMessageOf } from '../election/election.ts';
import { type LogEntry, decodeLogEntry } from '../state/log-entry.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { decodeConfiguration } from '../state/storage-format.ts';

export class RaftFollower {
  readonly #state: ConsensusState;

  constructor(state: ConsensusState) {
    this.#state = state;
  }

  /** The sender leads in our term. False: the message makes no sense, and nothing was done. */
  append(from: NodeId, message: ConsensusMessageOf<'append'>): boolean {
    const state = this.#state;
    const entries = entriesOf(message);
    if (entries === undefined) return false;
    const { prevIndex, prevTerm } = message;
    const { base } = state.log;
    // Everything up to the base is agreed, so it is the same at every leader.
    if (prevIndex >= base.index && state.log.termAt(prevIndex) !== prevTerm) {
      this.#refuse(from, message);
      return true;
    }
    const lastNew = prevIndex + entries.length;
    this.#store(prevIndex < base.index ? entries.slice(base.index - prevIndex) : entries);
    this.#advanceCommit(Math.min(message.commitIndex, lastNew));
    this.#answer(from, message, lastNew);
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

  /** A heartbeat is answered at once, also while the disk is slow, as long as our term is safe there. */
  #answer(from: NodeId, { entries, prevIndex, round }: ConsensusMessageOf<'append'>, lastNew: number): void {
    const { outbox, group, term, health, durability } = this.#state;
    const about = { group, term, round, ok: true, prevIndex, hintTerm: 0, health: Math.round(health) };
    if (entries.length === 0 && durability.term === term) {
      outbox.sendImmediately(from, { kind: 'appendReply', ...about, index: Math.min(prevIndex, durability.index) });
    } else {
      this.#state.persist();
      outbox.send(from, { kind: 'appendReply', ...about, index: lastNew });
    }
  }

  #refuse(from: NodeId, { prevIndex, prevTerm, round }: ConsensusMessageOf<'append'>): void {
    const { outbox, group, term, log, health } = this.#state;
    const { index, term: hintTerm } = log.lastNotAfter(prevIndex, prevTerm);
    const about = { group, term, round, ok: false, prevIndex, index, hintTerm, health: Math.round(health) };
    this.#state.persist();
    outbox.send(from, { kind: 'appendReply', ...about });
  }
}

/** Undefined when they are no entries, or none that one leader can have. */
function entriesOf({
  entries,
  prevIndex,
  prevTerm,
  term,
}: ConsensusMessageOf<'append'>): readonly LogEntry[] | undefined {
  try {
    let last = prevTerm;
    const out = entries.map((record, i) => {
      const entry = decodeLogEntry(prevIndex + 1 + i, record);
      if (entry.kind === 'members') decodeConfiguration(entry.command);
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
