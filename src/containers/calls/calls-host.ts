/**
 * The calls of one node: from whoever wants one to the owners and back. It resolves the route, bounds what is under way
 * and puts the parts together; how one container is reached is the business of part.ts. Every call ends.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, ByteStream, ByteStreamEvents, Cancel, Identity, Streams } from '../../base/ports.ts';
import type { CallMessage, CallMessageOf } from '../../messages/calls.ts';
import type { Message } from '../../messages/catalogue.ts';
import { decodeValue } from '../../messages/codec/value.ts';
import type { CallAnswer, CallResult, CallSession, Calls, KnownPool, WantedCall } from '../contract.ts';
import type { ModuleDefinition, Route } from '../module.ts';
import { Aggregation, aggregateOf } from './aggregate.ts';
import { Alarms } from './alarms.ts';
import { CallablePools } from './callable-pools.ts';
import { openFlow } from './flow-reader.ts';
import { Gathering } from './gathering.ts';
import { type CallsOptions, defaultCallsOptions } from './options.ts';
import { type Hearer, Part, type PartOfCall, type PartPorts, type PartSite, type Place, type Running } from './part.ts';
import { PoolSearch } from './pool-search.ts';
import { type Resolved, chosenRoute, plainContainer, resolveRoute } from './route.ts';
import { CallDesk } from './serving.ts';
import { Session } from './session.ts';
import { routeToWire } from './wire.ts';

export type CallsPorts = PartPorts & {
  readonly self: Pick<Identity, 'id' | 'generation'>;
  readonly streams: Pick<Streams, 'request' | 'open'>;
  nodeByName(name: string): NodeId | undefined;
  readonly modules: { get(name: string, version: number): ModuleDefinition | undefined };
};

const sessionsMax = 1_000;

const nothing: Running = { cancel: () => {} };

export class CallsHost implements Calls {
  readonly #ports: CallsPorts;
  readonly #options: CallsOptions;
  readonly #site: PartSite;
  readonly #pools: CallablePools;
  readonly #desk: CallDesk;
  readonly #sessions = new BoundedLru<string, CallSession>(sessionsMax);
  /** Calls that have not ended. */
  readonly #tally = { open: 0 };
  /** Counts sessions, so that two of one name never share a call id. */
  #serial = 0;

  constructor(ports: CallsPorts, options: Partial<CallsOptions> = {}) {
    this.#ports = ports;
    this.#options = { ...defaultCallsOptions, ...options };
    this.#pools = new CallablePools(ports, this.#options.retryTimeoutMs);
    const alarms = new Alarms(ports.clock);
    this.#site = { ports, options: this.#options, alarms, flowFrom: (...flow) => this.#flowFrom(...flow) };
    this.#desk = new CallDesk({ ports, calls: this, flowsMax: this.#options.flowsMax });
  }

  /** Calls that have not ended. */
  get open(): number {
    return this.#tally.open;
  }

  /** `done` may be called before this returns: a container of this node may answer at once. */
  call(call: WantedCall, done: Done<CallResult>): Cancel {
    const running = this.#begin(call, { heard: done });
    return () => running.cancel();
  }

  #begin(call: WantedCall, hearer: Hearer<CallResult>): Running {
    // A call of many containers waits for many of them.
    if (this.#tally.open >= this.#options.callsMax || this.#site.alarms.size >= this.#options.callsMax) {
      this.#ports.count('calls.refused');
      hearer.heard(failure('CAPACITY', `${this.#options.callsMax} calls are under way already`));
      return nothing;
    }
    this.#tally.open += 1;
    const pool = this.#pools.get(call.pool);
    const container = pool === undefined ? undefined : plainContainer(call.route, pool);
    if (pool !== undefined && container !== undefined) {
      const part = new Part(this.#site, pool, container, call, hearer, this.#tally);
      part.start();
      return part;
    }
    const ended: Done<CallResult> = (outcome) => {
      this.#tally.open -= 1;
      hearer.heard(outcome);
    };
    // The pieces of such a call replace each other.
    const running: { now: Running | undefined } = { now: undefined };
    if (pool !== undefined) this.#route(call, pool, running, ended);
    else this.#search(call, running, ended);
    return { cancel: () => running.now?.cancel() };
  }

  /** Somebody is told by this node that the pool with that number is there: calls of it wait until the table has it. */
  expect(pool: string, major: number): void {
    this.#pools.expect(pool, major);
  }

  /** The same one for the same name, unless it was not asked for in a long time. */
  session(name: string): CallSession {
    const known = this.#sessions.get(name);
    if (known !== undefined) return known;
    const { self } = this.#ports;
    const { callTimeoutMs } = this.#options;
    this.#serial += 1;
    const parts = { self, name, serial: this.#serial, callTimeoutMs };
    const session = new Session({ ...parts, begin: (call, hearer) => this.#begin(call, hearer) });
    this.#sessions.set(name, session);
    return session;
  }

  /** For the node's service: false when the message is none of ours. */
  answer(from: Identity, message: Message, remainingMs: number, reply: Done<Uint8Array>): boolean {
    return this.#desk.answer(from, message as CallMessage, remainingMs, reply);
  }

  /** For the node's service: a stream that began with this message. */
  openedFlow(from: Identity, opening: CallMessageOf<'openFlow'>, stream: ByteStream): ByteStreamEvents {
    return this.#desk.openedFlow(from, opening, stream);
  }

  /** A pool of which nobody here has heard, or only of one of that name that goes, may have been created a moment ago. */
  #search(call: WantedCall, running: { now: Running | undefined }, ended: Done<CallResult>): void {
    const { clock, table } = this.#ports;
    const { unknownPoolMs, retryTimeoutMs } = this.#options;
    // A node that has just begun knows nothing yet; what it has told somebody is there, however late its table is.
    const isThere = table.version === 0 || this.#pools.isExpected(call.pool);
    const patienceMs = isThere ? (call.retryTimeoutMs ?? retryTimeoutMs) : unknownPoolMs;
    const startMs = clock.nowMs();
    running.now = new PoolSearch(
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

  #route(call: WantedCall, pool: KnownPool, running: { now: Running | undefined }, ended: Done<CallResult>): void {
    const resolved = this.#resolved(call, pool);
    if (!resolved.ok) return ended(resolved);
    const { first, many } = resolved.value;
    if (many) return this.#gather(call, pool, resolved.value, running, ended);
    const part = new Part(this.#site, pool, first, call, { heard: ended });
    running.now = part;
    part.start();
  }

  #resolved(call: WantedCall, pool: KnownPool): Outcome<Resolved> {
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

  #chosen({ method, args }: WantedCall, pool: KnownPool): Route {
    const definition = this.#definition(pool);
    const { module } = pool.record;
    if (definition === undefined)
      throw new RemusterError('PRECONDITION', `the module ${module} is not loaded on this node: ask one that has it`);
    const list = decodeValue(args);
    return chosenRoute(definition, pool, method, Array.isArray(list) ? list : []);
  }

  #definition({ record }: KnownPool): ModuleDefinition | undefined {
    return this.#ports.modules.get(record.module, record.moduleVersion);
  }

  #gather(
    call: WantedCall,
    pool: KnownPool,
    { first, count }: Resolved,
    running: { now: Running | undefined },
    ended: Done<CallResult>,
  ): void {
    const { neighbourhood, gatheredBytesMax: bytesMax } = this.#options;
    const { clock } = this.#ports;
    const startMs = clock.nowMs();
    const ask = (container: number, done: Done<CallAnswer>): Part => {
      const part = new Part(this.#site, pool, container, call, { heard: done });
      part.start();
      return part;
    };
    const ownerOf = (container: number): NodeId | undefined => this.#ports.table.ownerOf(pool, container);
    const gathering = new Gathering({ first, count, neighbourhood, bytesMax, ask, ownerOf }, (outcome) => {
      if (!outcome.ok) return ended(outcome);
      const aggregation = new Aggregation(ended);
      running.now = aggregation;
      const leftMs = Math.max(0, call.timeoutMs - (clock.nowMs() - startMs));
      aggregation.start(aggregateOf(this.#definition(pool), call.method), outcome.value, clock, leftMs);
    });
    running.now = gathering;
    gathering.start();
  }

  #flowFrom(to: Address, { pool, container }: Place, call: PartOfCall, timeoutMs: number): AsyncIterable<Uint8Array> {
    const { method, args, id, lowest } = call;
    const route = routeToWire({ id: container });
    const rest = { retryTimeoutMs: undefined, method, timeoutMs: Math.ceil(timeoutMs), hops: 1 };
    const opening = { kind: 'openFlow', ...id, lowest, pool: pool.name, route, ...rest } as const;
    return openFlow(this.#ports, to, opening, args);
  }
}
