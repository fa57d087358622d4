/** The `ctx` of one call or callback; expensive parts are made on first use. Refuses everything after `end`. */
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

/** What all contexts of one container have in common. */
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
  readonly #home: ContextInfo;
  readonly #id: CallId | undefined;
  readonly #deadlineMs: number;
  #aborter: AbortController | undefined;
  #reason: RemusterError | undefined;
  #hasEnded = false;
  /** It has called another container: what that changed stays, whatever becomes of this call. */
  hasCalled = false;

  constructor(home: ContextInfo, state: State, timers: Timers, id: CallId | undefined, deadlineMs: number) {
    this.#home = home;
    this.state = state;
    this.timers = timers;
    this.#id = id;
    this.#deadlineMs = deadlineMs;
  }

  get pool(): PoolInfo {
    return this.#home.pool;
  }

  get container(): number {
    return this.#home.container;
  }

  get node(): string {
    return this.#home.node;
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
    return this.#home.now;
  }

  get random(): () => number {
    return this.#home.random;
  }

  get log(): Context['log'] {
    return this.#home.log;
  }

  get remainingMs(): () => number {
    return () => this.#remainingMs();
  }

  get call(): <M extends Methods>(definition: ModuleDefinition<M>, pool: string) => PoolHandle<M> {
    return (definition, pool) => poolHandle(definition, pool, (call, options) => this.#invoke(call, options));
  }

  /** The caller has given up, its time is over, or the container closes. */
  abort(reason: RemusterError): void {
    this.#reason ??= reason;
    this.#aborter?.abort(reason);
  }

  end(): void {
    this.#hasEnded = true;
  }

  /** Calls of a call end with it: they get no more time than it has, and its signal. */
  #invoke(call: HandleCall, options: CallOptions): Promise<unknown> {
    if (this.#hasEnded) throw viewEndedError();
    this.hasCalled = true;
    return this.#home.session().call(call, this.#capped(options));
  }

  #capped(options: CallOptions): CallOptions {
    const remainingMs = this.#remainingMs();
    const signal = options.signal === undefined ? this.signal : AbortSignal.any([this.signal, options.signal]);
    return { ...options, timeoutMs: Math.min(options.timeoutMs ?? remainingMs, remainingMs), signal };
  }

  #remainingMs(): number {
    return Math.max(0, this.#deadlineMs - this.#home.clock.nowMs());
  }
}
