/**
 * Proposals of this node on their way into the log of a leader. They gather while a write is under way and enter the
 * log together when it is durable, so that a busy leader makes few large writes and messages, and an idle one waits for
 * nothing. All that wait for agreement are counted, and more than the bound are refused.
 */
import { failure } from '../base/errors.ts';
import { type Entry, commandBytesMax, newEntry, recordBytes } from './entry.ts';
import type { GroupState } from './group-state.ts';

export type Proposal = { readonly call: number; readonly command: Uint8Array };

export class Proposals {
  readonly #state: GroupState;
  #gathered: Proposal[] = [];
  #gatheredBytes = 0;
  /** In the log, and not applied yet. */
  #waitingBytes = 0;

  constructor(state: GroupState) {
    this.#state = state;
  }

  add(proposal: Proposal): void {
    const { options, log, appliedIndex } = this.#state;
    const { call, command } = proposal;
    if (command.length > commandBytesMax) return this.#refuse(call, 'TOO_LARGE');
    const bytes = this.#gatheredBytes + this.#waitingBytes + command.length;
    const count = this.#gathered.length + log.lastIndex - appliedIndex;
    if (count >= options.proposalsMax || bytes > options.proposalsBytesMax) return this.#refuse(call, 'CAPACITY');
    this.#gathered.push(proposal);
    this.#gatheredBytes += command.length;
  }

  /** Something has gathered that may enter the log now. */
  get isDue(): boolean {
    const { log, durability, options } = this.#state;
    const isWriting = durability.index < log.lastIndex;
    return this.#gathered.length > 0 && (!isWriting || this.#gatheredBytes >= options.appendBytes);
  }

  /** Entries for what has gathered, if it may enter the log now. */
  take(): readonly Entry[] {
    const { log, term } = this.#state;
    if (!this.isDue) return [];
    let index = log.lastIndex;
    // One piece of memory for all: one for each would cost more than everything else here.
    const memory = new Uint8Array(this.#gathered.reduce((bytes, { command }) => bytes + recordBytes(command), 0));
    let used = 0;
    const entries = this.#gathered.map(({ call, command }) => {
      const record = memory.subarray(used, (used += recordBytes(command)));
      return newEntry(++index, term, 'command', command, call, record);
    });
    this.#waitingBytes += this.#gatheredBytes;
    this.#gathered = [];
    this.#gatheredBytes = 0;
    return entries;
  }

  applied(entries: readonly Entry[]): void {
    for (const { kind, command, call } of entries) {
      if (kind === 'command' && call !== undefined) this.#waitingBytes -= command.length;
    }
  }

  /** Leadership is lost: what was not appended never will be, the rest is open. */
  abandon(): void {
    const { log, commitIndex, out } = this.#state;
    for (const { call } of this.#gathered) this.#refuse(call, 'NOT_LEADER');
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#waitingBytes = 0;
    for (let index = commitIndex + 1; index <= log.lastIndex; index++) {
      const entry = log.at(index);
      if (entry?.call === undefined) continue;
      const outcome = failure('NETWORK_TIMEOUT', 'leadership was lost before the entry was agreed');
      out.put({ kind: 'ended', call: entry.call, outcome, ahead: true });
      entry.call = undefined;
    }
  }

  #refuse(call: number, code: 'TOO_LARGE' | 'CAPACITY' | 'NOT_LEADER'): void {
    this.#state.out.put({ kind: 'ended', call, outcome: failure(code), ahead: true });
  }
}
