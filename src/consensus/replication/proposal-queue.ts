/**
 * Batches proposals while a write is under way and turns them into log entries. Bounded; refuses the excess with
 * CAPACITY. A busy leader so makes few large writes and messages, an idle one waits for nothing.
 */
import { failure } from '../../base/errors.ts';
import { type LogEntry, commandBytesMax, newLogEntry, logEntryBytes } from '../state/log-entry.ts';
import type { ConsensusState } from '../state/consensus-state.ts';

export type Proposal = { readonly call: number; readonly command: Uint8Array };

export class ProposalQueue {
  readonly #state: ConsensusState;
  #batch: Proposal[] = [];
  #gatheredBytes = 0;
  /** In the log, and not applied yet. */
  #waitingBytes = 0;

  constructor(state: ConsensusState) {
    this.#state = state;
  }

  add(proposal: Proposal): void {
    const { options, log, appliedIndex } = this.#state;
    const { call, command } = proposal;
    if (command.length > commandBytesMax) return this.#refuse(call, 'TOO_LARGE');
    const bytes = this.#gatheredBytes + this.#waitingBytes + command.length;
    const count = this.#batch.length + log.lastIndex - appliedIndex;
    if (count >= options.proposalsMax || bytes > options.proposalsBytesMax) return this.#refuse(call, 'CAPACITY');
    this.#batch.push(proposal);
    this.#gatheredBytes += command.length;
  }

  /** Something has gathered that may enter the log now. */
  get isDue(): boolean {
    const { log, durability, options } = this.#state;
    const isWriting = durability.index < log.lastIndex;
    return this.#batch.length > 0 && (!isWriting || this.#gatheredBytes >= options.appendBytes);
  }

  /** Entries for what has gathered, if it may enter the log now. */
  takeEntries(): readonly LogEntry[] {
    const { log, term } = this.#state;
    if (!this.isDue) return [];
    let index = log.lastIndex;
    // One piece of memory for all: one for each would cost more than everything else here.
    const memory = new Uint8Array(this.#batch.reduce((bytes, { command }) => bytes + logEntryBytes(command), 0));
    let used = 0;
    const entries = this.#batch.map(({ call, command }) => {
      const record = memory.subarray(used, (used += logEntryBytes(command)));
      return newLogEntry(++index, term, 'command', command, call, record);
    });
    this.#waitingBytes += this.#gatheredBytes;
    this.#batch = [];
    this.#gatheredBytes = 0;
    return entries;
  }

  applied(entries: readonly LogEntry[]): void {
    for (const { kind, command, call } of entries) {
      if (kind === 'command' && call !== undefined) this.#waitingBytes -= command.length;
    }
  }

  /** Leadership is lost: what was not appended never will be, the rest is open. */
  failAll(): void {
    const { log, commitIndex, outbox } = this.#state;
    for (const { call } of this.#batch) this.#refuse(call, 'NOT_LEADER');
    this.#batch = [];
    this.#gatheredBytes = 0;
    this.#waitingBytes = 0;
    for (let index = commitIndex + 1; index <= log.lastIndex; index++) {
      const entry = log.at(index);
      if (entry?.call === undefined) continue;
      const outcome = failure('NETWORK_TIMEOUT', 'leadership was lost before the entry was agreed');
      outbox.put({ kind: 'ended', call: entry.call, outcome, immediate: true });
      entry.call = undefined;
    }
  }

  #refuse(call: number, code: 'TOO_LARGE' | 'CAPACITY' | 'NOT_LEADER'): void {
    // It never entered the log.
    this.#state.outbox.put({ kind: 'ended', call, outcome: failure(code, undefined, 'no'), immediate: true });
  }
}
