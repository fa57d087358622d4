/**
 * The result stream of a generator method. Retried on other nodes only until the first item; afterwards a break is an
 * error, because some items were seen already.
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

/** Nobody got it, or its container moved, or the connection was lost: flows only read, so it may as well begin anew. */
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

export function startResultStream(site: ClientContext, call: RoutedCall, limits: CallDeadlines): ResultStream {
  const one = new StreamCall(site, call, limits);
  return { items: one.items(), cancel: (error) => one.end(error) };
}

class StreamCall {
  readonly #site: ClientContext;
  readonly #call: RoutedCall;
  readonly #limits: CallDeadlines;
  #reader: AsyncIterableIterator<Uint8Array> | undefined;
  #ended: RemusterError | undefined;
  #wake: () => void = () => {};

  constructor(site: ClientContext, call: RoutedCall, limits: CallDeadlines) {
    this.#site = site;
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
      const address = this.#site.servers.nextUntried(tried) ?? this.#site.servers.current;
      let began = false;
      try {
        for await (const item of this.#open(address)) {
          began = true;
          yield decodeValue(item);
        }
        break;
      } catch (error) {
        if (began || !this.#mayRetry(error)) throw error;
        this.#site.servers.demote(address);
        tried.add(addressKey(address));
        if (tried.size < this.#site.servers.count && tried.size <= this.#site.tryNewServers) continue;
        tried.clear();
        await this.#pause();
      }
    }
    if (this.#ended !== undefined) throw this.#ended;
  }

  #open(address: ReturnType<ClientContext['servers']['nextUntried']> & object): AsyncIterableIterator<Uint8Array> {
    const { pool, route, method, args, id, lowestPending, retryTimeoutMs } = this.#call;
    const remainingMs = this.#limits.deadlineMs - this.#site.clock.nowMs();
    if (remainingMs <= 0) throw new RemusterError('DEADLINE');
    const timeoutMs = Math.ceil(Math.min(streamMsMax, remainingMs));
    const wire = { ...id, lowestPending, pool, route: routeToWire(route), retryTimeoutMs, method };
    this.#reader = readResultStream(
      this.#site,
      address,
      { kind: 'openResultStream', ...wire, timeoutMs, hops: 0 },
      args,
    );
    return this.#reader;
  }

  #mayRetry(error: unknown): boolean {
    if (!isRemusterError(error) || this.#site.clock.nowMs() >= this.#limits.retryUntilMs) return false;
    return retryable.includes(error.code);
  }

  async #pause(): Promise<void> {
    if (this.#ended !== undefined) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#site.clock.schedule(retryDelayMs, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}
