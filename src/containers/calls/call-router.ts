/** All calls of one node: resolves routes, bounds the open calls, combines results. Every call ends. */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, ByteStream, ByteStreamEvents, Cancel, Identity, Streams } from '../../base/ports.ts';
import type { CallMessage, CallMessageOf } from '../../messages/calls.ts';
import type { Message } from '../../messages/catalogue.ts';
import { decodeValue } from '../../messages/codec/value.ts';
import type { CallOutput, CallResult, CallSession, ContainerCalls, KnownPool, RoutedCall } from '../contract.ts';
import type { ModuleDefinition, Route } from '../module.ts';
import { Aggregation, aggregateMethodOf } from './aggregation.ts';
import { CallTimerList } from './call-timer-list.ts';
import { CallablePoolWait, CallablePools } from './callable-pools.ts';
import { readResultStream } from './result-stream-reader.ts';
import { FanOut } from './fan-out.ts';
import { type CallRouterOptions, callRouterDefaults } from './call-options.ts';
import {
  type Completion,
  ContainerCall,
  type ContainerCallRequest,
  type ContainerCallPorts,
  type ContainerCallContext,
  type ContainerTarget,
  type CancellableCall,
} from './container-call.ts';
import { type ResolvedRoute, dynamicRoute, directContainer, resolveRoute } from './route.ts';
import { CallServer } from './call-server.ts';
import { CallerSession } from './caller-session.ts';
import { routeToWire } from './call-messages.ts';

export type CallRouterPorts = ContainerCallPorts & {
  readonly self: Pick<Identity, 'id' | 'generation'>;
  readonly streams: Pick<Streams, 'request' | 'open'>;
  nodeByName(name: string): NodeId | undefined;
  readonly modules: { get(name: string, version: number): ModuleDefinition | undefined };
};

const sessionsMax = 1_000;

const endedCall: CancellableCall = { cancel: () => {} };

export class CallRouter implements ContainerCalls {
  readonly #ports: CallRouterPorts;
  readonly #options: CallRouterOptions;
  readonly #context: ContainerCallContext;
  readonly #pools: CallablePools;
  readonly #server: CallServer;
  readonly #sessions = new BoundedLru<string, CallSession>(sessionsMax);
  /** Calls that have not ended. */
  readonly #tally = { open: 0 };
  /** Part of the session name, so that two sessions of one name never share a call id. */
  #sessionCount = 0;

  constructor(ports: CallRouterPorts, options: Partial<CallRouterOptions> = {}) {
    this.#ports = ports;
    this.#options = { ...callRouterDefaults, ...options };
    this.#pools = new CallablePools(ports, this.#options.retryTimeoutMs);
    const timers = new CallTimerList(ports.clock);
    this.#context = { ports, options: this.#options, timers, openStream: (...args) => this.#openStream(...args) };
    this.#server = new CallServer({ ports, calls: this, streamsMax: this.#options.streamsMax });
  }

  /** Calls that have not ended. */
  get open(): number {
    return this.#tally.open;
  }

  /** `done` may be called before this returns: a container of this node may reply at once. */
  call(call: RoutedCall, done: Done<CallResult>): Cancel {
    const running = this.#start(call, { complete: done });
    return () => running.cancel();
  }

  #start(call: RoutedCall, completion: Completion<CallResult>): CancellableCall {
    // The timers count the calls of single containers: a fan-out is many of them.
    if (this.#tally.open >= this.#options.callsMax || this.#context.timers.size >= this.#options.callsMax) {
      this.#ports.count('calls.refused');
      completion.complete(failure('CAPACITY', `this node has ${this.#options.callsMax} open calls, its maximum`));
      return endedCall;
    }
    this.#tally.open += 1;
    const pool = this.#pools.get(call.pool);
    const container = pool === undefined ? undefined : directContainer(call.route, pool);
    if (pool !== undefined && container !== undefined) {
      const part = new ContainerCall(this.#context, pool, container, call, completion, this.#tally);
      part.start();
      return part;
    }
    const ended: Done<CallResult> = (outcome) => {
      this.#tally.open -= 1;
      completion.complete(outcome);
    };
    // Search, fan-out and aggregation follow each other; `now` is the one to cancel.
    const running: { now: CancellableCall | undefined } = { now: undefined };
    if (pool !== undefined) this.#route(call, pool, running, ended);
    else this.#waitForPool(call, running, ended);
    return { cancel: () => running.now?.cancel() };
  }

  /** This node has confirmed the creation of the pool: calls wait until the address table has it. */
  expectPool(pool: string, major: number): void {
    this.#pools.expectPool(pool, major);
  }

  /** Returns the same session for the same name; sessions not used for long are forgotten. */
  session(name: string): CallSession {
    const known = this.#sessions.get(name);
    if (known !== undefined) return known;
    const { self } = this.#ports;
    const { callTimeoutMs } = this.#options;
    this.#sessionCount += 1;
    const parts = { self, name, serial: this.#sessionCount, callTimeoutMs };
    const session = new CallerSession({ ...parts, start: (call, completion) => this.#start(call, completion) });
    this.#sessions.set(name, session);
    return session;
  }

  /** Handles a message of the call protocol; false for any other message. */
  handle(from: Identity, message: Message, remainingMs: number, reply: Done<Uint8Array>): boolean {
    return this.#server.handle(from, message as CallMessage, remainingMs, reply);
  }

  /** Handles a stream that was opened with this message. */
  openedResultStream(from: Identity, opening: CallMessageOf<'openResultStream'>, stream: ByteStream): ByteStreamEvents {
    return this.#server.openedResultStream(from, opening, stream);
  }

  /** The pool is unknown or being deleted, but a pool of that name may have been created a moment ago. */
  #waitForPool(call: RoutedCall, running: { now: CancellableCall | undefined }, ended: Done<CallResult>): void {
    const { clock, table } = this.#ports;
    const { poolWaitMs, retryTimeoutMs } = this.#options;
    // A node that has just started has no table yet. A pool whose creation this node has confirmed exists.
    const isCreated = table.version === 0 || this.#pools.isExpected(call.pool);
    const searchMs = isCreated ? (call.retryTimeoutMs ?? retryTimeoutMs) : poolWaitMs;
    const startMs = clock.nowMs();
    running.now = new CallablePoolWait(
      { clock, pools: this.#pools },
      call.pool,
      Math.min(call.timeoutMs, searchMs),
      (outcome) => {
        if (!outcome.ok) return ended(outcome);
        const timeoutMs = Math.max(0, call.timeoutMs - (clock.nowMs() - startMs));
        this.#route({ ...call, timeoutMs }, outcome.value, running, ended);
      },
    );
  }

  #route(
    call: RoutedCall,
    pool: KnownPool,
    running: { now: CancellableCall | undefined },
    ended: Done<CallResult>,
  ): void {
    const resolved = this.#resolve(call, pool);
    if (!resolved.ok) return ended(resolved);
    const { first, isFanOut } = resolved.value;
    if (isFanOut) return this.#fanOut(call, pool, resolved.value, running, ended);
    const part = new ContainerCall(this.#context, pool, first, call, { complete: ended });
    running.now = part;
    part.start();
  }

  #resolve(call: RoutedCall, pool: KnownPool): Outcome<ResolvedRoute> {
    const { self, table, hosting } = this.#ports;
    try {
      const route = 'dynamic' in call.route ? this.#dynamicRoute(call, pool) : call.route;
      const nodeByName = (name: string): NodeId | undefined => this.#ports.nodeByName(name);
      return success(resolveRoute(route, pool, { self: self.id, table, hosting, nodeByName }));
    } catch (error) {
      if (isRemusterError(error)) return { ok: false, error };
      throw error;
    }
  }

  #dynamicRoute({ method, args }: RoutedCall, pool: KnownPool): Route {
    const definition = this.#definition(pool);
    const { module } = pool.record;
    if (definition === undefined)
      throw new RemusterError(
        'PRECONDITION',
        `module ${module} is not loaded on this node: send the call to a node that has it`,
        'no',
      );
    const list = decodeValue(args);
    return dynamicRoute(definition, pool, method, Array.isArray(list) ? list : []);
  }

  #definition({ record }: KnownPool): ModuleDefinition | undefined {
    return this.#ports.modules.get(record.module, record.moduleVersion);
  }

  #fanOut(
    call: RoutedCall,
    pool: KnownPool,
    { first, count }: ResolvedRoute,
    running: { now: CancellableCall | undefined },
    ended: Done<CallResult>,
  ): void {
    const { callsPerOwnerMax, resultBytesMax: bytesMax } = this.#options;
    const { clock } = this.#ports;
    const startMs = clock.nowMs();
    const callContainer = (container: number, done: Done<CallOutput>): ContainerCall => {
      const part = new ContainerCall(this.#context, pool, container, call, { complete: done });
      part.start();
      return part;
    };
    const ownerOf = (container: number): NodeId | undefined => this.#ports.table.ownerOf(pool, container);
    const fanOut = new FanOut({ first, count, callsPerOwnerMax, bytesMax, call: callContainer, ownerOf }, (outcome) => {
      if (!outcome.ok) return ended(outcome);
      const aggregation = new Aggregation(ended);
      running.now = aggregation;
      const leftMs = Math.max(0, call.timeoutMs - (clock.nowMs() - startMs));
      aggregation.start(aggregateMethodOf(this.#definition(pool), call.method), outcome.value, clock, leftMs);
    });
    running.now = fanOut;
    fanOut.start();
  }

  #openStream(
    to: Address,
    { pool, container }: ContainerTarget,
    call: ContainerCallRequest,
    timeoutMs: number,
  ): AsyncIterable<Uint8Array> {
    const { method, args, id, lowestPending } = call;
    const route = routeToWire({ id: container });
    const rest = { retryTimeoutMs: undefined, method, timeoutMs: Math.ceil(timeoutMs), hops: 1 };
    const opening = { kind: 'openResultStream', ...id, lowestPending, pool: pool.name, route, ...rest } as const;
    return readResultStream(this.#ports, to, opening, args);
  }
}
