/** The `ctx` of one call or callback; expensive parts are created on first use. Refuses everything after `end`. */
import type { RemusterError } from '../../../base/errors.ts';
import { type CallId, formatCallId } from '../../../base/ids.ts';
import type { Clock } from '../../../base/ports.ts';
import type { CallSession } from '../../contract.ts';
import type {
  CallOptions,
  Context,
  Methods,
  ModuleDefinition,
  PoolHandle,
  PoolInfo,
  State,
  Timers,
} from '../../module.ts';
import { type HandleCall, poolHandle } from '../../pool-handle.ts';
import { viewEndedError } from '../state/state-view.ts';

/** What all contexts of one activation share. */
export type ContextInfo = {
  readonly clock: Clock;
  readonly pool: PoolInfo;
  readonly container: number;
  readonly node: string;
  readonly now: () => number;
  readonly random: () => number;
  readonly log: Context['log'];
  readonly session: () => CallSession;
};

export class CallContext implements Context {
  readonly state: State;
  readonly timers: Timers;
  readonly #info: ContextInfo;
  readonly #id: CallId | undefined;
  readonly #deadlineMs: number;
  #aborter: AbortController | undefined;
  #reason: RemusterError | undefined;
  #hasEnded = false;
  /** The call has called another container: changes there stay, whatever the outcome of this call. */
  hasCalled = false;

  constructor(info: ContextInfo, state: State, timers: Timers, id: CallId | undefined, deadlineMs: number) {
    this.#info = info;
    this.state = state;
    this.timers = timers;
    this.#id = id;
    this.#deadlineMs = deadlineMs;
  }

  get pool(): PoolInfo {
    return this.#info.pool;
  }

  get container(): number {
    return this.#info.container;
  }

  get node(): string {
    return this.#info.node;
  }

  get callId(): string {
    return this.#id === undefined ? '' : formatCallId(this.#id);
  }

  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      this.#aborter = new AbortController();
      if (this.#reason !== undefined) this.#aborter.abort(this.#reason);
    }
    return this.#aborter.signal;
  }

  // Functions behind getters, so that `const { now, log } = ctx` works as well.
  get now(): () => number {
    return this.#info.now;
  }

  get random(): () => number {
    return this.#info.random;
  }

  get log(): Context['log'] {
    return this.#info.log;
  }

  get remainingMs(): () => number {
    return () => this.#remainingMs();
  }

  get call(): <M extends Methods>(definition: ModuleDefinition<M>, pool: string) => PoolHandle<M> {
    return (definition, pool) => poolHandle(definition, pool, (call, options) => this.#invoke(call, options));
  }

  /** The caller cancelled, the deadline passed, or the container closes. */
  abort(reason: RemusterError): void {
    this.#reason ??= reason;
    this.#aborter?.abort(reason);
  }

  end(): void {
    this.#hasEnded = true;
  }

  /** Nested calls end with this call: they get at most its remaining time, and its signal. */
  #invoke(call: HandleCall, options: CallOptions): Promise<unknown> {
    if (this.#hasEnded) throw viewEndedError();
    this.hasCalled = true;
    return this.#info.session().call(call, this.#capped(options));
  }

  #capped(options: CallOptions): CallOptions {
    const remainingMs = this.#remainingMs();
    const signal = options.signal === undefined ? this.signal : AbortSignal.any([this.signal, options.signal]);
    return { ...options, timeoutMs: Math.min(options.timeoutMs ?? remainingMs, remainingMs), signal };
  }

  #remainingMs(): number {
    return Math.max(0, this.#deadlineMs - this.#info.clock.nowMs());
  }
}
