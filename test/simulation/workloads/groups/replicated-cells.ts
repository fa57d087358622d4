/**
 * The replicated state machine of simulated groups: text cells with per-client deduplication, and a hash chain over
 * applied entries.
 */
import { registerModel, type RegisterAction } from '../../checking/register-model.ts';
import type { AppliedEntry, StateMachine, SnapshotRestore } from '../../../../src/consensus/state/state-machine.ts';

/** A command of a client. The number grows with each new command, the attempt with each retry. */
export type CellCommand = {
  readonly client: string;
  readonly number: number;
  readonly attempt: number;
  readonly key: string;
  readonly action: RegisterAction;
};

/** `superseded`: the client has sent a later command; this one never takes effect. */
export type CellReply = { readonly kind: 'done'; readonly returned: string } | { readonly kind: 'superseded' };

export type AppliedCellCommand = {
  readonly index: number;
  readonly term: number;
  readonly chain: number;
  readonly command: CellCommand;
  /** False: the command took effect before, or was superseded. */
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
  readonly clients: Record<string, { readonly number: number; readonly reply: CellReply }>;
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
    const { index, term, command: bytes } = entry;
    const state = this.#state;
    const command = decodeCellCommand(bytes);
    const last = state.clients[command.client];
    const effective = last === undefined || last.number < command.number;
    state.index = index;
    state.chain = nextChainHash(state.chain, index, term, bytes);
    const reply = effective ? this.#execute(command) : rememberedReply(last, command);
    this.#events.applied({ index, term, chain: state.chain, command, effective });
    return reply;
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

  #execute({ client, number, key, action }: CellCommand): CellReply {
    const before = this.read(key);
    const after = registerModel.after(before, action, false) ?? before;
    this.#state.cells[key] = after;
    const reply: CellReply = { kind: 'done', returned: action.kind === 'append' ? after : before };
    this.#state.clients[client] = { number, reply };
    return reply;
  }
}

function rememberedReply(last: State['clients'][string] | undefined, command: CellCommand): CellReply {
  return last?.number === command.number ? last.reply : { kind: 'superseded' };
}

export function encodeCellCommand(command: CellCommand): Uint8Array {
  return encodeText(JSON.stringify(command));
}

function decodeCellCommand(bytes: Uint8Array): CellCommand {
  return JSON.parse(decodeText(bytes)) as CellCommand;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function encodeText(text: string): Uint8Array {
  return encoder.encode(text);
}

function decodeText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Small parts, so that crashes can come between the first and the last. */
function* partsOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += partBytes) yield bytes.subarray(at, at + partBytes);
}

const partBytes = 100;

function nextChainHash(chain: number, index: number, term: number, command: Uint8Array): number {
  let sum = Math.imul(chain ^ index, 0x01000193) ^ term;
  for (const byte of command) sum = Math.imul(sum ^ byte, 0x01000193);
  return (sum ^ (sum >>> 15)) >>> 0;
}
