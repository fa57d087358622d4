/**
 * The items of a generator method for one reader. Each item waits until everything it could have read is durable, and
 * leaves only while the serving lease holds. A generator that ignores its signal cannot block the reader.
 */
import type { RemusterError } from '../../../base/errors.ts';
import { encodeValue } from '../../../messages/codec/value.ts';
import { methodFailure } from './module-methods.ts';

export type ResultStreamSourcePorts = {
  readonly itemBytesMax: number;
  /** Resolves when the state that is in memory now is durable. */
  readonly whenDurable: () => Promise<void>;
  /** Why no item may leave at this instant. */
  readonly servingError: () => RemusterError | undefined;
  /** The stream has ended, for any reason; called once. */
  readonly ended: () => void;
};

type Step = IteratorResult<Uint8Array, undefined>;

const done: Step = { done: true, value: undefined };

export class ResultStreamSource implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #items: AsyncIterator<unknown>;
  readonly #ports: ResultStreamSourcePorts;
  readonly #stopped = Promise.withResolvers<never>();
  #hasEnded = false;
  #isStopped = false;

  constructor(items: AsyncIterable<unknown>, ports: ResultStreamSourcePorts) {
    this.#items = items[Symbol.asyncIterator]();
    this.#ports = ports;
    // There may be no pending read when the stream is stopped.
    this.#stopped.promise.catch(() => {});
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Step> {
    if (this.#hasEnded) return this.#isStopped ? this.#stopped.promise : done;
    try {
      return await Promise.race([this.#stopped.promise, this.#step()]);
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  return(): Promise<Step> {
    this.#end();
    return Promise.resolve(done);
  }

  /** The reader gets this error instead of the next item. */
  stop(error: RemusterError): void {
    if (this.#hasEnded) return;
    this.#isStopped = true;
    this.#stopped.reject(error);
    this.#end();
  }

  async #step(): Promise<Step> {
    const value = await this.#item();
    if (value === undefined) {
      this.#end();
      return done;
    }
    await this.#ports.whenDurable();
    const error = this.#ports.servingError();
    if (error !== undefined) throw error;
    return { done: false, value };
  }

  /** Undefined after the last item. */
  async #item(): Promise<Uint8Array | undefined> {
    try {
      const step = await this.#items.next();
      return step.done === true ? undefined : encodeValue(step.value, this.#ports.itemBytesMax);
    } catch (thrown) {
      throw methodFailure(thrown);
    }
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    // A generator that awaits something else ends later, and is not awaited.
    this.#items.return?.()?.then(undefined, () => {});
    this.#ports.ended();
  }
}
