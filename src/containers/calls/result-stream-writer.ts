/**
 * Writing end of a streaming call: starts the call and sends items within the reader's credit. Cancels the call when
 * the reader leaves or the deadline passes.
 */
import { type Done, RemusterError, serializeError, isRemusterError } from '../../base/errors.ts';
import type { ByteStream, ByteStreamEvents, Cancel, Clock } from '../../base/ports.ts';
import { encodeMessage } from '../../messages/catalogue.ts';
import { valueBytesMax } from '../../messages/codec/value.ts';
import type { CallOutput } from '../contract.ts';
import { ResultFrameReader, ResultFrameSender, itemCost, resultFrameKinds, creditOf } from './result-frames.ts';
import { discardOutput } from './container-call.ts';
import { truncateErrorText } from './call-messages.ts';

/** Has the call made with these arguments. */
export type StartStreamingCall = (args: Uint8Array, done: Done<CallOutput>) => Cancel;

const roomMax = 2 ** 40;
/** How long the reader may take to close its side after the last word. */
const lingerMs = 10_000;

export class ResultStreamWriter {
  readonly events: ByteStreamEvents;
  readonly #clock: Clock;
  readonly #stream: ByteStream;
  readonly #begin: StartStreamingCall;
  readonly #ended: () => void;
  readonly #sender: ResultFrameSender;
  #late: Cancel;
  #room = 0;
  #cancel: Cancel | undefined;
  #over = false;
  /** Called when an item may be sent, or nothing will be any more. */
  #mayGoOn: (() => void) | undefined;

  constructor(
    stream: ByteStream,
    {
      clock,
      timeoutMs,
      begin,
      ended,
    }: { clock: Clock; timeoutMs: number; begin: StartStreamingCall; ended: () => void },
  ) {
    this.#clock = clock;
    this.#stream = stream;
    this.#begin = begin;
    this.#ended = ended;
    this.#sender = new ResultFrameSender(stream, () => this.#goOn());
    this.#late = clock.schedule(timeoutMs, () => this.#refuse(new RemusterError('DEADLINE')));
    const frames = new ResultFrameReader(valueBytesMax, (kind, bytes) => this.#frame(kind, bytes));
    this.events = {
      chunk: (bytes) => this.#chunk(frames, bytes),
      writable: () => this.#sender.pump(),
      ended: () => {
        this.#late();
        this.#finish();
      },
    };
  }

  #chunk(frames: ResultFrameReader, bytes: Uint8Array): void {
    try {
      frames.take(bytes);
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      this.#refuse(error);
    }
  }

  #frame(kind: number, bytes: Uint8Array): void {
    if (this.#over) return;
    if (kind === resultFrameKinds.credit) {
      this.#room = Math.min(roomMax, this.#room + creditOf(bytes));
      return this.#goOn();
    }
    if (kind !== resultFrameKinds.args || this.#cancel !== undefined) {
      throw new RemusterError('MALFORMED', 'a flow begins with its arguments, once');
    }
    this.#cancel = () => {};
    const cancel = this.#begin(bytes, (outcome) => {
      if (this.#over) return outcome.ok ? discardOutput(outcome.value) : undefined;
      if (outcome.ok) void this.#pour(outcome.value);
      else this.#refuse(outcome.error);
    });
    this.#cancel = cancel;
  }

  async #pour(answer: CallOutput): Promise<void> {
    try {
      // A method that is no generator gives a flow of one item.
      if ('value' in answer) await this.#send(answer.value);
      else for await (const item of answer.flow) if (!(await this.#send(item))) break;
      if (this.#over) return;
      this.#sender.send(resultFrameKinds.end, new Uint8Array(0));
      this.#close();
    } catch (error) {
      this.#refuse(error);
    }
  }

  /** False: nobody wants any more. */
  async #send(item: Uint8Array): Promise<boolean> {
    if (item.length > valueBytesMax) {
      throw new RemusterError('TOO_LARGE', `an item of a flow has at most ${valueBytesMax} bytes`);
    }
    while (!this.#over && (this.#room <= 0 || !this.#sender.isIdle)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#mayGoOn = resolve;
      await promise;
    }
    if (this.#over) return false;
    this.#room -= itemCost(item);
    this.#sender.send(resultFrameKinds.item, item);
    return true;
  }

  #goOn(): void {
    this.#mayGoOn?.();
    this.#mayGoOn = undefined;
  }

  #refuse(error: unknown): void {
    if (this.#over) return;
    const { code, message, stateChanged } = serializeError(error);
    const words = { code, message: truncateErrorText(message), owner: undefined, version: 0, stateChanged };
    this.#sender.send(resultFrameKinds.refused, encodeMessage({ kind: 'callError', ...words }));
    this.#close();
  }

  /** What was sent still arrives. */
  #close(): void {
    this.#sender.end();
    this.#finish();
    this.#late = this.#clock.schedule(lingerMs, () => this.#stream.abort('the reader does not end'));
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    this.#late();
    this.#cancel?.();
    this.#goOn();
    this.#ended();
  }
}
