/**
 * The replicated state machine of simulated groups: text cells with per-client deduplication, and a hash chain over
 * applied entries.
 */
import { registerModel, type RegisterAction } from '../../checking/register-model.ts';
import type { AppliedEntry, StateMachine, SnapshotRestore } from '../../../../src/consensus/state/state-machine.ts';

/** What one client wants done. The number grows with each new order; the attempt with each time it is sent again. */
export type CellCommand = {
  readonly client: string;
  readonly number: number;
  readonly attempt: number;
  readonly key: string;
  readonly action: RegisterAction;
};

/** `superseded`: the client has gone on to a later order, and this one will never be done. */
export type CellReply = { readonly kind: 'done'; readonly saw: string } | { readonly kind: 'superseded' };

export type AppliedCellCommand = {
  readonly index: number;
  readonly term: number;
  readonly chain: number;
  readonly order: CellCommand;
  /** False: it had been done before, or was superseded. */
  readonly effective: boolean;
};

export type ReplicatedCellsEvents = {
  applied(applied: AppliedCellCommand): void;
  restored(index: number, chain: number): void;
};

type State = {
  index: number;
  chain: number;
  readonly cells: Record<string, string>;
  readonly clients: Record<string, { readonly number: number; readonly answer: CellReply }>;
};

export class ReplicatedCells implements StateMachine<CellReply> {
  readonly #events: ReplicatedCellsEvents;
  #state: State = { index: 0, chain: 0, cells: {}, clients: {} };

  constructor(events: ReplicatedCellsEvents) {
    this.#events = events;
  }

  get index(): number {
    return this.#state.index;
  }

  get chainHash(): number {
    return this.#state.chain;
  }

  read(key: string): string {
    return this.#state.cells[key] ?? registerModel.initial;
  }

  apply(entry: AppliedEntry): CellReply {
    const { index, term, command } = entry;
    const state = this.#state;
    const order = decodeOrder(command);
    const last = state.clients[order.client];
    const effective = last === undefined || last.number < order.number;
    state.index = index;
    state.chain = fold(state.chain, index, term, command);
    const answer = effective ? this.#perform(order) : answerAgain(last, order);
    this.#events.applied({ index, term, chain: state.chain, order, effective });
    return answer;
  }

  snapshot(): Iterable<Uint8Array> {
    return partsOf(encodeText(JSON.stringify(this.#state)));
  }

  beginRestore(): SnapshotRestore {
    const stream = new TextDecoder();
    let text = '';
    return {
      add: (part) => void (text += stream.decode(part, { stream: true })),
      finish: () => {
        this.#state = JSON.parse(text + stream.decode()) as State;
        this.#events.restored(this.#state.index, this.#state.chain);
      },
    };
  }

  #perform({ client, number, key, action }: CellCommand): CellReply {
    const before = this.read(key);
    const after = registerModel.after(before, action, false) ?? before;
    this.#state.cells[key] = after;
    const answer: CellReply = { kind: 'done', saw: action.kind === 'append' ? after : before };
    this.#state.clients[client] = { number, answer };
    return answer;
  }
}

function answerAgain(last: State['clients'][string] | undefined, order: CellCommand): CellReply {
  return last?.number === order.number ? last.answer : { kind: 'superseded' };
}

export function encodeCellCommand(order: CellCommand): Uint8Array {
  return encodeText(JSON.stringify(order));
}

function decodeOrder(command: Uint8Array): CellCommand {
  return JSON.parse(decodeText(command)) as CellCommand;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function encodeText(text: string): Uint8Array {
  return encoder.encode(text);
}

function decodeText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Small ones, so that much happens between the first and the last of them. */
function* partsOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += partBytes) yield bytes.subarray(at, at + partBytes);
}

const partBytes = 100;

function fold(chain: number, index: number, term: number, command: Uint8Array): number {
  let sum = Math.imul(chain ^ index, 0x01000193) ^ term;
  for (const byte of command) sum = Math.imul(sum ^ byte, 0x01000193);
  return (sum ^ (sum >>> 15)) >>> 0;
}
