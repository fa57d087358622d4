/**
 * Batches proposals while a write is under way and turns them into log entries. Bounded; refuses the excess with
 * CAPACITY. So a busy leader makes few large writes and messages, and an idle one adds no delay.
 */
import { failure } from '../../base/errors.ts';
import { type LogEntry, commandBytesMax, newLogEntry, logEntryBytes } from '../state/log-entry.ts';
import type { ConsensusState } from '../state/consensus-state.ts';

export type Proposal = { readonly call: number; readonly command: Uint8Array };

export class ProposalQueue {
  readonly #state: ConsensusState;
  #batch: Proposal[] = [];
  #batchBytes = 0;
  /** In the log and not applied yet. */
  #pendingBytes = 0;

  constructor(state: ConsensusState) {
    this.#state = state;
  }

  add(proposal: Proposal): void {
    const { options, log, appliedIndex } = this.#state;
    const { call, command } = proposal;
    if (command.length > commandBytesMax) return this.#refuse(call, 'TOO_LARGE');
    const bytes = this.#batchBytes + this.#pendingBytes + command.length;
    const count = this.#batch.length + log.lastIndex - appliedIndex;
    if (count >= options.proposalsMax || bytes > options.proposalsBytesMax) return this.#refuse(call, 'CAPACITY');
    this.#batch.push(proposal);
    this.#batchBytes += command.length;
  }

  /** A batch may be appended now. */
  get isDue(): boolean {
    const { log, durability, options } = this.#state;
    const isWriting = durability.index < log.lastIndex;
    return this.#batch.length > 0 && (!isWriting || this.#batchBytes >= options.appendBytes);
  }

  /** The entries of the batch, if it may be appended now. */
  takeEntries(): readonly LogEntry[] {
    const { log, term } = this.#state;
    if (!this.isDue) return [];
    let index = log.lastIndex;
    // One buffer for the batch: one per entry would cost more than all the rest.
    const buffer = new Uint8Array(this.#batch.reduce((bytes, { command }) => bytes + logEntryBytes(command), 0));
    let used = 0;
    const entries = this.#batch.map(({ call, command }) => {
      const encoded = buffer.subarray(used, (used += logEntryBytes(command)));
      return newLogEntry(++index, term, 'command', command, call, encoded);
    });
    this.#pendingBytes += this.#batchBytes;
    this.#batch = [];
    this.#batchBytes = 0;
    return entries;
  }

  applied(entries: readonly LogEntry[]): void {
    for (const { kind, command, call } of entries) {
      if (kind === 'command' && call !== undefined) this.#pendingBytes -= command.length;
    }
  }

  /** Leadership is lost: batched proposals were never appended; appended ones may still be committed. */
  failAll(): void {
    const { log, commitIndex, outbox } = this.#state;
    for (const { call } of this.#batch) this.#refuse(call, 'NOT_LEADER');
    this.#batch = [];
    this.#batchBytes = 0;
    this.#pendingBytes = 0;
    for (let index = commitIndex + 1; index <= log.lastIndex; index++) {
      const entry = log.at(index);
      if (entry?.call === undefined) continue;
      const outcome = failure('NETWORK_TIMEOUT', 'leadership was lost before the entry was committed');
      outbox.put({ kind: 'callEnded', call: entry.call, outcome, immediate: true });
      entry.call = undefined;
    }
  }

  #refuse(call: number, code: 'TOO_LARGE' | 'CAPACITY' | 'NOT_LEADER'): void {
    this.#state.outbox.put({ kind: 'callEnded', call, outcome: failure(code, undefined, 'no'), immediate: true });
  }
}
