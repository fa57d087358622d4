/**
 * The writing end of a result stream: starts the call and sends items while the reader grants credit. Cancels the call
 * when the reader leaves or the deadline passes.
 */
import { type Done, RemusterError, serializeError, isRemusterError } from '../../base/errors.ts';
import type { ByteStream, ByteStreamEvents, Cancel, Clock } from '../../base/ports.ts';
import { encodeMessage } from '../../messages/catalogue.ts';
import { valueBytesMax } from '../../messages/codec/value.ts';
import type { CallOutput } from '../contract.ts';
import { ResultFrameReader, ResultFrameSender, itemCost, resultFrameKinds, creditOf } from './result-frames.ts';
import { discardOutput } from './container-call.ts';
import { truncateErrorText } from './call-messages.ts';

/** Starts the call with these encoded arguments. */
export type StartStreamingCall = (args: Uint8Array, done: Done<CallOutput>) => Cancel;

const creditMax = 2 ** 40;
/** How long the reader may take to close its side after the last frame. */
const lingerMs = 10_000;

export class ResultStreamWriter {
  readonly events: ByteStreamEvents;
  readonly #clock: Clock;
  readonly #stream: ByteStream;
  readonly #startCall: StartStreamingCall;
  readonly #ended: () => void;
  readonly #sender: ResultFrameSender;
  #cancelTimer: Cancel;
  #credit = 0;
  #cancel: Cancel | undefined;
  #hasEnded = false;
  /** Resolves the wait of `#send`: credit or room in the stream has come, or the stream has ended. */
  #resume: (() => void) | undefined;

  constructor(
    stream: ByteStream,
    {
      clock,
      timeoutMs,
      start,
      ended,
    }: { clock: Clock; timeoutMs: number; start: StartStreamingCall; ended: () => void },
  ) {
    this.#clock = clock;
    this.#stream = stream;
    this.#startCall = start;
    this.#ended = ended;
    this.#sender = new ResultFrameSender(stream, () => this.#wake());
    this.#cancelTimer = clock.schedule(timeoutMs, () => this.#refuse(new RemusterError('DEADLINE')));
    const frames = new ResultFrameReader(valueBytesMax, (kind, bytes) => this.#onFrame(kind, bytes));
    this.events = {
      chunk: (bytes) => this.#onChunk(frames, bytes),
      writable: () => this.#sender.flush(),
      ended: () => {
        this.#cancelTimer();
        this.#finish();
      },
    };
  }

  #onChunk(frames: ResultFrameReader, bytes: Uint8Array): void {
    try {
      frames.take(bytes);
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      this.#refuse(error);
    }
  }

  #onFrame(kind: number, bytes: Uint8Array): void {
    if (this.#hasEnded) return;
    if (kind === resultFrameKinds.credit) {
      this.#credit = Math.min(creditMax, this.#credit + creditOf(bytes));
      return this.#wake();
    }
    if (kind !== resultFrameKinds.args || this.#cancel !== undefined) {
      throw new RemusterError('MALFORMED', 'a result stream starts with its arguments, once');
    }
    this.#cancel = () => {};
    const cancel = this.#startCall(bytes, (outcome) => {
      if (this.#hasEnded) return outcome.ok ? discardOutput(outcome.value) : undefined;
      if (outcome.ok) void this.#sendOutput(outcome.value);
      else this.#refuse(outcome.error);
    });
    this.#cancel = cancel;
  }

  async #sendOutput(output: CallOutput): Promise<void> {
    try {
      // A method that is no generator yields its result as one item.
      if ('value' in output) await this.#send(output.value);
      else for await (const item of output.stream) if (!(await this.#send(item))) break;
      if (this.#hasEnded) return;
      this.#sender.send(resultFrameKinds.end, new Uint8Array(0));
      this.#close();
    } catch (error) {
      this.#refuse(error);
    }
  }

  /** False: the stream has ended. */
  async #send(item: Uint8Array): Promise<boolean> {
    if (item.length > valueBytesMax) {
      throw new RemusterError(
        'TOO_LARGE',
        `an item of a result stream has ${item.length} bytes; the maximum is ${valueBytesMax}`,
      );
    }
    while (!this.#hasEnded && (this.#credit <= 0 || !this.#sender.isIdle)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      await promise;
    }
    if (this.#hasEnded) return false;
    this.#credit -= itemCost(item);
    this.#sender.send(resultFrameKinds.item, item);
    return true;
  }

  #wake(): void {
    this.#resume?.();
    this.#resume = undefined;
  }

  #refuse(error: unknown): void {
    if (this.#hasEnded) return;
    const { code, message, stateChanged } = serializeError(error);
    const fields = { code, message: truncateErrorText(message), owner: undefined, version: 0, stateChanged };
    this.#sender.send(resultFrameKinds.refused, encodeMessage({ kind: 'callError', ...fields }));
    this.#close();
  }

  /** Frames sent so far still arrive. */
  #close(): void {
    this.#sender.end();
    this.#finish();
    this.#cancelTimer = this.#clock.schedule(lingerMs, () => this.#stream.abort('the reader has not closed its side'));
  }

  #finish(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#cancelTimer();
    this.#cancel?.();
    this.#wake();
    this.#ended();
  }
}
