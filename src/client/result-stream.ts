/**
 * The result stream of a generator method. Retried on other nodes until its first item; after that a break ends it with
 * an error, because the caller has seen items.
 */
import { type ErrorCode, RemusterError, isRemusterError } from '../base/errors.ts';
import { readResultStream } from '../containers/calls/result-stream-reader.ts';
import { routeToWire } from '../containers/calls/call-messages.ts';
import type { RoutedCall } from '../containers/contract.ts';
import { decodeValue } from '../messages/codec/value.ts';
import type { CallDeadlines } from './call-deadlines.ts';
import type { ClientContext } from './retrying-request.ts';
import { addressKey } from './server-list.ts';

export type ResultStream = { readonly items: AsyncIterable<unknown>; cancel(error: RemusterError): void };

/**
 * The call was not started, its container moved, or the connection broke. Streaming methods only read: a retry is safe.
 */
const retryable: readonly ErrorCode[] = [
  'CANCELLED',
  'DRAINED',
  'FENCED',
  'NETWORK_TIMEOUT',
  'NO_QUORUM',
  'PLUGGED',
  'STALE_TABLE',
  'UNREACHABLE',
];
const streamMsMax = 2 ** 31 - 1;
const retryDelayMs = 100;

export function startResultStream(context: ClientContext, call: RoutedCall, limits: CallDeadlines): ResultStream {
  const stream = new StreamCall(context, call, limits);
  return { items: stream.items(), cancel: (error) => stream.end(error) };
}

class StreamCall {
  readonly #context: ClientContext;
  readonly #call: RoutedCall;
  readonly #limits: CallDeadlines;
  #reader: AsyncIterableIterator<Uint8Array> | undefined;
  #ended: RemusterError | undefined;
  #wake: () => void = () => {};

  constructor(context: ClientContext, call: RoutedCall, limits: CallDeadlines) {
    this.#context = context;
    this.#call = call;
    this.#limits = limits;
  }

  end(error: RemusterError): void {
    this.#ended ??= error;
    this.#wake();
    void this.#reader?.return?.();
  }

  async *items(): AsyncGenerator {
    const tried = new Set<string>();
    while (this.#ended === undefined) {
      const address = this.#context.servers.nextUntried(tried) ?? this.#context.servers.current;
      let hasItem = false;
      try {
        for await (const item of this.#open(address)) {
          hasItem = true;
          yield decodeValue(item);
        }
        break;
      } catch (error) {
        if (hasItem || !this.#canRetry(error)) throw error;
        this.#context.servers.demote(address);
        tried.add(addressKey(address));
        if (tried.size < this.#context.servers.count && tried.size <= this.#context.tryNewServers) continue;
        tried.clear();
        await this.#delay();
      }
    }
    if (this.#ended !== undefined) throw this.#ended;
  }

  #open(address: ReturnType<ClientContext['servers']['nextUntried']> & object): AsyncIterableIterator<Uint8Array> {
    const { pool, route, method, args, id, lowestPending, retryTimeoutMs } = this.#call;
    const remainingMs = this.#limits.deadlineMs - this.#context.clock.nowMs();
    if (remainingMs <= 0) throw new RemusterError('DEADLINE');
    const timeoutMs = Math.ceil(Math.min(streamMsMax, remainingMs));
    const wire = { ...id, lowestPending, pool, route: routeToWire(route), retryTimeoutMs, method };
    this.#reader = readResultStream(
      this.#context,
      address,
      { kind: 'openResultStream', ...wire, timeoutMs, hops: 0 },
      args,
    );
    return this.#reader;
  }

  #canRetry(error: unknown): boolean {
    if (!isRemusterError(error) || this.#context.clock.nowMs() >= this.#limits.retryUntilMs) return false;
    return retryable.includes(error.code);
  }

  async #delay(): Promise<void> {
    if (this.#ended !== undefined) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#context.clock.schedule(retryDelayMs, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}
