/**
 * The calls of pools of one session: numbers them, has them sent until they end, and ends all of them when the session
 * is closed. Several handles share it, and with it the connection.
 */
import { RemusterError, promised } from '../base/errors.ts';
import { type CallId, parseCallId } from '../base/ids.ts';
import type { WantedCall } from '../containers/contract.ts';
import { wantedToWire } from '../containers/calls/wire.ts';
import type { CallOptions, Methods, ModuleDefinition, PoolHandle, Route } from '../containers/module.ts';
import { type InvokedCall, isFlowMethod, poolHandle } from '../containers/pool-handle.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { encodeValue } from '../messages/value.ts';
import { type CallTimes, callLimits } from './call-limits.ts';
import { CallNumbers } from './call-numbers.ts';
import { Errand, type Site } from './errand.ts';
import { type Flow, flowOf } from './flow.ts';
import { judgeCall } from './results.ts';

const callsMax = 10_000;
const wireMsMax = 0xffff_ffff;

/** Something under way that can be ended. */
type Ending = { end(error: RemusterError): void };

export class PoolCalls {
  readonly #site: Site;
  readonly #times: CallTimes;
  readonly #numbers: CallNumbers;
  readonly #open = new Set<Ending>();
  readonly #began: () => void;
  #closed = false;

  /** `began` is told of each call: a good moment to look whether the list of members is fresh. */
  constructor(site: Site, times: CallTimes, sessionName: string, began: () => void) {
    this.#site = site;
    this.#times = times;
    this.#numbers = new CallNumbers(sessionName);
    this.#began = began;
  }

  get openCount(): number {
    return this.#open.size;
  }

  pool<M extends Methods>(definition: ModuleDefinition<M>, name: string): PoolHandle<M> {
    return poolHandle(definition, name, (call, options) => {
      const method = definition.methods[call.method] as Methods[string];
      return isFlowMethod(method) ? this.#flow(call, options) : this.#call(call, options, method);
    });
  }

  close(): void {
    this.#closed = true;
    const error = new RemusterError('CANCELLED', 'the session was closed');
    for (const one of [...this.#open]) one.end(error);
  }

  async #call(call: InvokedCall, options: CallOptions, method: Methods[string]): Promise<unknown> {
    this.#check(options);
    const limits = callLimits(this.#site.clock.nowMs(), options, this.#times);
    const id = this.#begin(options);
    try {
      const body = encodeMessage(wantedToWire(this.#wanted(call, options, id)));
      const isEndless = limits.endsMs === Infinity;
      return await promised<unknown>((done) => {
        const errand = new Errand<unknown>(
          this.#site,
          {
            ...limits,
            body,
            isAnchored: isAnchored(call.route),
            judge: (answer) => judgeCall(answer, method, isEndless),
          },
          (outcome) => {
            leave();
            done(outcome);
          },
        );
        const leave = this.#enter(errand, options.signal);
        errand.start();
      });
    } finally {
      this.#numbers.end(id);
    }
  }

  async *#flow(call: InvokedCall, options: CallOptions): AsyncGenerator {
    this.#check(options);
    const limits = callLimits(this.#site.clock.nowMs(), options, this.#times);
    const id = this.#begin(options);
    let leave = (): void => {};
    try {
      const flow: Flow = flowOf(this.#site, this.#wanted(call, options, id), limits);
      leave = this.#enter(flow, options.signal);
      yield* flow.items;
    } finally {
      leave();
      this.#numbers.end(id);
    }
  }

  #check({ signal }: CallOptions): void {
    if (this.#closed) throw new RemusterError('CANCELLED', 'the session is closed');
    if (signal?.aborted === true) throw new RemusterError('CANCELLED');
    if (this.#open.size >= callsMax)
      throw new RemusterError('CAPACITY', `more than ${callsMax} calls of one session at once`);
    this.#began();
  }

  #begin({ callId }: CallOptions): CallId {
    return callId === undefined ? this.#numbers.begin() : parseCallId(callId);
  }

  #wanted(call: InvokedCall, options: CallOptions, id: CallId): WantedCall {
    const { pool, method, route } = call;
    const { retryTimeoutMs } = options;
    return {
      ...{ pool, method, route, id, timeoutMs: wireMsMax },
      args: encodeValue(call.args),
      // Of an id from outside nobody knows what else is still waited for.
      lowest: options.callId === undefined ? this.#numbers.lowest : 0,
      retryTimeoutMs:
        retryTimeoutMs === undefined || retryTimeoutMs < 0
          ? undefined
          : Math.min(wireMsMax, Math.round(retryTimeoutMs)),
    };
  }

  /** The result takes it out again. */
  #enter(one: Ending, signal: AbortSignal | undefined): () => void {
    this.#open.add(one);
    if (signal === undefined) return () => void this.#open.delete(one);
    const aborted = (): void => one.end(new RemusterError('CANCELLED'));
    signal.addEventListener('abort', aborted, { once: true });
    return () => {
      this.#open.delete(one);
      signal.removeEventListener('abort', aborted);
    };
  }
}

/** Which container these mean depends on when and where they are asked: sent again, the call could run in another one. */
function isAnchored(route: Route): boolean {
  return 'local' in route || 'node' in route;
}
