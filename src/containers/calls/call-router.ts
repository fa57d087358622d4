/** All calls of one node: resolves the route, bounds what is under way, combines results. Every call ends. */
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
import { CallTimerList } from './alarms.ts';
import { CallablePools } from './callable-pools.ts';
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
import { CallablePoolWait } from './pool-search.ts';
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

const nothing: CancellableCall = { cancel: () => {} };

export class CallRouter implements ContainerCalls {
  readonly #ports: CallRouterPorts;
  readonly #options: CallRouterOptions;
  readonly #site: ContainerCallContext;
  readonly #pools: CallablePools;
  readonly #desk: CallServer;
  readonly #sessions = new BoundedLru<string, CallSession>(sessionsMax);
  /** Calls that have not ended. */
  readonly #tally = { open: 0 };
  /** Counts sessions, so that two of one name never share a call id. */
  #serial = 0;

  constructor(ports: CallRouterPorts, options: Partial<CallRouterOptions> = {}) {
    this.#ports = ports;
    this.#options = { ...callRouterDefaults, ...options };
    this.#pools = new CallablePools(ports, this.#options.retryTimeoutMs);
    const alarms = new CallTimerList(ports.clock);
    this.#site = { ports, options: this.#options, alarms, openStream: (...flow) => this.#flowFrom(...flow) };
    this.#desk = new CallServer({ ports, calls: this, flowsMax: this.#options.flowsMax });
  }

  /** Calls that have not ended. */
  get open(): number {
    return this.#tally.open;
  }

  /** `done` may be called before this returns: a container of this node may answer at once. */
  call(call: RoutedCall, done: Done<CallResult>): Cancel {
    const running = this.#begin(call, { complete: done });
    return () => running.cancel();
  }

  #begin(call: RoutedCall, hearer: Completion<CallResult>): CancellableCall {
    // A call of many containers waits for many of them.
    if (this.#tally.open >= this.#options.callsMax || this.#site.alarms.size >= this.#options.callsMax) {
      this.#ports.count('calls.refused');
      hearer.complete(failure('CAPACITY', `${this.#options.callsMax} calls are under way already`));
      return nothing;
    }
    this.#tally.open += 1;
    const pool = this.#pools.get(call.pool);
    const container = pool === undefined ? undefined : directContainer(call.route, pool);
    if (pool !== undefined && container !== undefined) {
      const part = new ContainerCall(this.#site, pool, container, call, hearer, this.#tally);
      part.start();
      return part;
    }
    const ended: Done<CallResult> = (outcome) => {
      this.#tally.open -= 1;
      hearer.complete(outcome);
    };
    // The pieces of such a call replace each other.
    const running: { now: CancellableCall | undefined } = { now: undefined };
    if (pool !== undefined) this.#route(call, pool, running, ended);
    else this.#search(call, running, ended);
    return { cancel: () => running.now?.cancel() };
  }

  /** Somebody is told by this node that the pool with that number is there: calls of it wait until the table has it. */
  expectPool(pool: string, major: number): void {
    this.#pools.expectPool(pool, major);
  }

  /** The same one for the same name, unless it was not asked for in a long time. */
  session(name: string): CallSession {
    const known = this.#sessions.get(name);
    if (known !== undefined) return known;
    const { self } = this.#ports;
    const { callTimeoutMs } = this.#options;
    this.#serial += 1;
    const parts = { self, name, serial: this.#serial, callTimeoutMs };
    const session = new CallerSession({ ...parts, begin: (call, hearer) => this.#begin(call, hearer) });
    this.#sessions.set(name, session);
    return session;
  }

  /** For the node's service: false when the message is none of ours. */
  handle(from: Identity, message: Message, remainingMs: number, reply: Done<Uint8Array>): boolean {
    return this.#desk.handle(from, message as CallMessage, remainingMs, reply);
  }

  /** For the node's service: a stream that began with this message. */
  openedResultStream(from: Identity, opening: CallMessageOf<'openResultStream'>, stream: ByteStream): ByteStreamEvents {
    return this.#desk.openedResultStream(from, opening, stream);
  }

  /** A pool of which nobody here has heard, or only of one of that name that goes, may have been created a moment ago. */
  #search(call: RoutedCall, running: { now: CancellableCall | undefined }, ended: Done<CallResult>): void {
    const { clock, table } = this.#ports;
    const { poolWaitMs, retryTimeoutMs } = this.#options;
    // A node that has just begun knows nothing yet; what it has told somebody is there, however late its table is.
    const isThere = table.version === 0 || this.#pools.isExpected(call.pool);
    const patienceMs = isThere ? (call.retryTimeoutMs ?? retryTimeoutMs) : poolWaitMs;
    const startMs = clock.nowMs();
    running.now = new CallablePoolWait(
      { clock, pools: this.#pools },
      call.pool,
      Math.min(call.timeoutMs, patienceMs),
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
    const resolved = this.#resolved(call, pool);
    if (!resolved.ok) return ended(resolved);
    const { first, isFanOut } = resolved.value;
    if (isFanOut) return this.#gather(call, pool, resolved.value, running, ended);
    const part = new ContainerCall(this.#site, pool, first, call, { complete: ended });
    running.now = part;
    part.start();
  }

  #resolved(call: RoutedCall, pool: KnownPool): Outcome<ResolvedRoute> {
    const { self, table, hosting } = this.#ports;
    try {
      const route = 'dynamic' in call.route ? this.#chosen(call, pool) : call.route;
      const nodeByName = (name: string): NodeId | undefined => this.#ports.nodeByName(name);
      return success(resolveRoute(route, pool, { self: self.id, table, hosting, nodeByName }));
    } catch (error) {
      if (isRemusterError(error)) return { ok: false, error };
      throw error;
    }
  }

  #chosen({ method, args }: RoutedCall, pool: KnownPool): Route {
    const definition = this.#definition(pool);
    const { module } = pool.record;
    if (definition === undefined)
      throw new RemusterError(
        'PRECONDITION',
        `the module ${module} is not loaded on this node: ask one that has it`,
        'no',
      );
    const list = decodeValue(args);
    return dynamicRoute(definition, pool, method, Array.isArray(list) ? list : []);
  }

  #definition({ record }: KnownPool): ModuleDefinition | undefined {
    return this.#ports.modules.get(record.module, record.moduleVersion);
  }

  #gather(
    call: RoutedCall,
    pool: KnownPool,
    { first, count }: ResolvedRoute,
    running: { now: CancellableCall | undefined },
    ended: Done<CallResult>,
  ): void {
    const { neighbourhood, gatheredBytesMax: bytesMax } = this.#options;
    const { clock } = this.#ports;
    const startMs = clock.nowMs();
    const ask = (container: number, done: Done<CallOutput>): ContainerCall => {
      const part = new ContainerCall(this.#site, pool, container, call, { complete: done });
      part.start();
      return part;
    };
    const ownerOf = (container: number): NodeId | undefined => this.#ports.table.ownerOf(pool, container);
    const gathering = new FanOut({ first, count, neighbourhood, bytesMax, call: ask, ownerOf }, (outcome) => {
      if (!outcome.ok) return ended(outcome);
      const aggregation = new Aggregation(ended);
      running.now = aggregation;
      const leftMs = Math.max(0, call.timeoutMs - (clock.nowMs() - startMs));
      aggregation.start(aggregateMethodOf(this.#definition(pool), call.method), outcome.value, clock, leftMs);
    });
    running.now = gathering;
    gathering.start();
  }

  #flowFrom(
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
