/**
 * The container calls of one session, at most 10,000 at a time: assigns call ids, runs each call to its end, and
 * cancels all when the session closes.
 */
import { RemusterError, toPromise } from '../base/errors.ts';
import type { CallId } from '../base/ids.ts';
import type { RoutedCall } from '../containers/contract.ts';
import { routeCallToMessage } from '../containers/calls/call-messages.ts';
import { callIdOf } from '../containers/calls/caller-session.ts';
import type { CallOptions, Methods, ModuleDefinition, PoolHandle, Route } from '../containers/module.ts';
import { type HandleCall, isStreamingMethod, poolHandle } from '../containers/pool-handle.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { encodeValue } from '../messages/codec/value.ts';
import { type CallTimeouts, callDeadlines } from './call-deadlines.ts';
import { CallIdAllocator } from './call-ids.ts';
import { RetryingRequest, type ClientContext } from './retrying-request.ts';
import { type ResultStream, startResultStream } from './result-stream.ts';
import { classifyCallReply } from './call-results.ts';

export const sessionCallsMax = 10_000;
const wireMsMax = 0xffff_ffff;

/** A call under way. */
type Cancellable = { cancel(error: RemusterError): void };

export class PoolCalls {
  readonly #context: ClientContext;
  readonly #timeouts: CallTimeouts;
  readonly #callIds: CallIdAllocator;
  readonly #open = new Set<Cancellable>();
  readonly #onCall: () => void;
  #closed = false;

  /** `onCall` runs with each call: the session then refreshes a stale list of members. */
  constructor(context: ClientContext, timeouts: CallTimeouts, sessionName: string, onCall: () => void) {
    this.#context = context;
    this.#timeouts = timeouts;
    this.#callIds = new CallIdAllocator(sessionName);
    this.#onCall = onCall;
  }

  get openCount(): number {
    return this.#open.size;
  }

  pool<M extends Methods>(definition: ModuleDefinition<M>, name: string): PoolHandle<M> {
    return poolHandle(definition, name, (call, options) => {
      const method = definition.methods[call.method] as Methods[string];
      return isStreamingMethod(method) ? this.#stream(call, options) : this.#call(call, options, method);
    });
  }

  close(): void {
    this.#closed = true;
    const error = new RemusterError('CANCELLED', 'the session was closed');
    for (const call of [...this.#open]) call.cancel(error);
  }

  async #call(call: HandleCall, options: CallOptions, method: Methods[string]): Promise<unknown> {
    this.#check(options);
    const limits = callDeadlines(this.#context.clock.nowMs(), options, this.#timeouts);
    const id = this.#callId(options);
    try {
      const body = encodeMessage(routeCallToMessage(this.#routedCall(call, options, id)));
      const isEndless = limits.deadlineMs === Infinity;
      return await toPromise<unknown>((done) => {
        const request = new RetryingRequest<unknown>(
          this.#context,
          {
            ...limits,
            body,
            isBoundToNode: isBoundToNode(call.route),
            classify: (reply) => classifyCallReply(reply, method, isEndless),
          },
          (outcome) => {
            untrack();
            done(outcome);
          },
        );
        const untrack = this.#track(request, options.signal);
        request.start();
      });
    } finally {
      this.#callIds.release(id);
    }
  }

  async *#stream(call: HandleCall, options: CallOptions): AsyncGenerator {
    this.#check(options);
    const limits = callDeadlines(this.#context.clock.nowMs(), options, this.#timeouts);
    const id = this.#callId(options);
    let untrack = (): void => {};
    try {
      const stream: ResultStream = startResultStream(this.#context, this.#routedCall(call, options, id), limits);
      untrack = this.#track(stream, options.signal);
      yield* stream.items;
    } finally {
      untrack();
      this.#callIds.release(id);
    }
  }

  #check({ signal }: CallOptions): void {
    if (this.#closed) throw new RemusterError('CANCELLED', 'the session is closed', 'no');
    if (signal?.aborted === true) throw new RemusterError('CANCELLED', undefined, 'no');
    if (this.#open.size >= sessionCallsMax)
      throw new RemusterError('CAPACITY', `more than ${sessionCallsMax} calls of one session at once`);
    this.#onCall();
  }

  #callId({ callId }: CallOptions): CallId {
    return callId === undefined ? this.#callIds.allocate() : callIdOf(callId);
  }

  #routedCall(call: HandleCall, options: CallOptions, id: CallId): RoutedCall {
    const { pool, method, route } = call;
    const { retryTimeoutMs } = options;
    return {
      ...{ pool, method, route, id, timeoutMs: wireMsMax },
      args: encodeValue(call.args),
      // For a call id of the caller the lowest pending number is unknown.
      lowestPending: options.callId === undefined ? this.#callIds.lowestPending : 0,
      retryTimeoutMs:
        retryTimeoutMs === undefined || retryTimeoutMs < 0
          ? undefined
          : Math.min(wireMsMax, Math.round(retryTimeoutMs)),
    };
  }

  /** Cancels the call with the session or its signal, until the returned function is called. */
  #track(call: Cancellable, signal: AbortSignal | undefined): () => void {
    this.#open.add(call);
    if (signal === undefined) return () => void this.#open.delete(call);
    const onAbort = (): void => call.cancel(new RemusterError('CANCELLED'));
    signal.addEventListener('abort', onAbort, { once: true });
    return () => {
      this.#open.delete(call);
      signal.removeEventListener('abort', onAbort);
    };
  }
}

/** The meaning of these routes depends on the node that resolves them: resent elsewhere, a call could run twice. */
function isBoundToNode(route: Route): boolean {
  return 'local' in route || 'node' in route;
}
