/**
 * The container calls of one session: assigns call ids, sends until they end, cancels all when the session closes.
 * Bounded to 10,000 calls.
 */
import { RemusterError, toPromise } from '../base/errors.ts';
import { type CallId, parseCallId } from '../base/ids.ts';
import type { RoutedCall } from '../containers/contract.ts';
import { routeCallToMessage } from '../containers/calls/call-messages.ts';
import type { CallOptions, Methods, ModuleDefinition, PoolHandle, Route } from '../containers/module.ts';
import { type HandleCall, isStreamingMethod, poolHandle } from '../containers/pool-handle.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { encodeValue } from '../messages/codec/value.ts';
import { type CallTimeouts, callDeadlines } from './call-deadlines.ts';
import { CallIdAllocator } from './call-ids.ts';
import { RetryingRequest, type ClientContext } from './retrying-request.ts';
import { type ResultStream, startResultStream } from './result-stream.ts';
import { classifyCallReply } from './call-results.ts';

const callsMax = 10_000;
const wireMsMax = 0xffff_ffff;

/** Something under way that can be ended. */
type Cancellable = { cancel(error: RemusterError): void };

export class PoolCalls {
  readonly #site: ClientContext;
  readonly #times: CallTimeouts;
  readonly #callIds: CallIdAllocator;
  readonly #open = new Set<Cancellable>();
  readonly #began: () => void;
  #closed = false;

  /** `began` is told of each call: a good moment to look whether the list of members is fresh. */
  constructor(site: ClientContext, times: CallTimeouts, sessionName: string, began: () => void) {
    this.#site = site;
    this.#times = times;
    this.#callIds = new CallIdAllocator(sessionName);
    this.#began = began;
  }

  get openCount(): number {
    return this.#open.size;
  }

  pool<M extends Methods>(definition: ModuleDefinition<M>, name: string): PoolHandle<M> {
    return poolHandle(definition, name, (call, options) => {
      const method = definition.methods[call.method] as Methods[string];
      return isStreamingMethod(method) ? this.#flow(call, options) : this.#call(call, options, method);
    });
  }

  close(): void {
    this.#closed = true;
    const error = new RemusterError('CANCELLED', 'the session was closed');
    for (const one of [...this.#open]) one.cancel(error);
  }

  async #call(call: HandleCall, options: CallOptions, method: Methods[string]): Promise<unknown> {
    this.#check(options);
    const limits = callDeadlines(this.#site.clock.nowMs(), options, this.#times);
    const id = this.#begin(options);
    try {
      const body = encodeMessage(routeCallToMessage(this.#routedCall(call, options, id)));
      const isEndless = limits.deadlineMs === Infinity;
      return await toPromise<unknown>((done) => {
        const errand = new RetryingRequest<unknown>(
          this.#site,
          {
            ...limits,
            body,
            isBoundToNode: isBoundToNode(call.route),
            classify: (answer) => classifyCallReply(answer, method, isEndless),
          },
          (outcome) => {
            leave();
            done(outcome);
          },
        );
        const leave = this.#track(errand, options.signal);
        errand.start();
      });
    } finally {
      this.#callIds.release(id);
    }
  }

  async *#flow(call: HandleCall, options: CallOptions): AsyncGenerator {
    this.#check(options);
    const limits = callDeadlines(this.#site.clock.nowMs(), options, this.#times);
    const id = this.#begin(options);
    let leave = (): void => {};
    try {
      const flow: ResultStream = startResultStream(this.#site, this.#routedCall(call, options, id), limits);
      leave = this.#track(flow, options.signal);
      yield* flow.items;
    } finally {
      leave();
      this.#callIds.release(id);
    }
  }

  #check({ signal }: CallOptions): void {
    if (this.#closed) throw new RemusterError('CANCELLED', 'the session is closed', 'no');
    if (signal?.aborted === true) throw new RemusterError('CANCELLED', undefined, 'no');
    if (this.#open.size >= callsMax)
      throw new RemusterError('CAPACITY', `more than ${callsMax} calls of one session at once`);
    this.#began();
  }

  #begin({ callId }: CallOptions): CallId {
    return callId === undefined ? this.#callIds.allocate() : parseCallId(callId);
  }

  #routedCall(call: HandleCall, options: CallOptions, id: CallId): RoutedCall {
    const { pool, method, route } = call;
    const { retryTimeoutMs } = options;
    return {
      ...{ pool, method, route, id, timeoutMs: wireMsMax },
      args: encodeValue(call.args),
      // Of an id from outside nobody knows what else is still waited for.
      lowestPending: options.callId === undefined ? this.#callIds.lowestPending : 0,
      retryTimeoutMs:
        retryTimeoutMs === undefined || retryTimeoutMs < 0
          ? undefined
          : Math.min(wireMsMax, Math.round(retryTimeoutMs)),
    };
  }

  /** The result takes it out again. */
  #track(one: Cancellable, signal: AbortSignal | undefined): () => void {
    this.#open.add(one);
    if (signal === undefined) return () => void this.#open.delete(one);
    const aborted = (): void => one.cancel(new RemusterError('CANCELLED'));
    signal.addEventListener('abort', aborted, { once: true });
    return () => {
      this.#open.delete(one);
      signal.removeEventListener('abort', aborted);
    };
  }
}

/** Which container these mean depends on when and where they are asked: sent again, the call could run in another one. */
function isBoundToNode(route: Route): boolean {
  return 'local' in route || 'node' in route;
}
