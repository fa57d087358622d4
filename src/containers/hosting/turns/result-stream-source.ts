/**
 * Items of a streaming method for one reader. Each item waits until all it could have seen is durable, and leaves only
 * while the lease holds. A generator that ignores its signal cannot hold the reader.
 */
import type { RemusterError } from '../../../base/errors.ts';
import { encodeValue } from '../../../messages/codec/value.ts';
import { methodFailure } from './module-methods.ts';

export type ResultStreamSourcePorts = {
  readonly itemBytesMax: number;
  /** Ends when everything that is in memory now is durable. */
  readonly durable: () => Promise<void>;
  /** Why nothing may be given at this instant. */
  readonly servingError: () => RemusterError | undefined;
  /** It is over, whatever the reason; called once. */
  readonly ended: () => void;
};

type Step = IteratorResult<Uint8Array, undefined>;

const over: Step = { done: true, value: undefined };

export class ResultStreamSource implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #items: AsyncIterator<unknown>;
  readonly #ports: ResultStreamSourcePorts;
  readonly #stopped = Promise.withResolvers<never>();
  #isOver = false;
  #isStopped = false;

  constructor(items: AsyncIterable<unknown>, ports: ResultStreamSourcePorts) {
    this.#items = items[Symbol.asyncIterator]();
    this.#ports = ports;
    // Nobody may be reading when it is stopped.
    this.#stopped.promise.catch(() => {});
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Step> {
    if (this.#isOver) return this.#isStopped ? this.#stopped.promise : over;
    try {
      return await Promise.race([this.#stopped.promise, this.#step()]);
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  return(): Promise<Step> {
    this.#end();
    return Promise.resolve(over);
  }

  /** The reader gets this error instead of the next item. */
  stop(error: RemusterError): void {
    if (this.#isOver) return;
    this.#isStopped = true;
    this.#stopped.reject(error);
    this.#end();
  }

  async #step(): Promise<Step> {
    const value = await this.#item();
    if (value === undefined) {
      this.#end();
      return over;
    }
    await this.#ports.durable();
    const obstacle = this.#ports.servingError();
    if (obstacle !== undefined) throw obstacle;
    return { done: false, value };
  }

  /** Undefined after the last one. */
  async #item(): Promise<Uint8Array | undefined> {
    try {
      const step = await this.#items.next();
      return step.done === true ? undefined : encodeValue(step.value, this.#ports.itemBytesMax);
    } catch (thrown) {
      throw methodFailure(thrown);
    }
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    // A generator that waits for something else hears of it later; nobody waits for that.
    this.#items.return?.()?.then(undefined, () => {});
    this.#ports.ended();
  }
}
