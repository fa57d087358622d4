/**
 * A few nodes with calls between them on pretend time: tables that can be made stale, owners that can be frozen, cut
 * off or made to refuse, replies that can be held back or lost. The state of containers outlives its owners here, and
 * remembers what it has run, as the real one does.
 */
import assert from 'node:assert/strict';
import { type Done, type ErrorCode, type Outcome, failure, success } from '../../../src/base/errors.ts';
import { type NodeId, formatCallId } from '../../../src/base/ids.ts';
import type { Address, Cancel, Clock, Identity, Streams } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import { decodeMessage } from '../../../src/messages/catalogue.ts';
import { decodeValue, encodeValue } from '../../../src/messages/codec/value.ts';
import type { PoolRecord } from '../../../src/placement/state/container-records.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import type {
  AddressTable,
  IncomingCall,
  CallOutput,
  CallResult,
  ContainerHosting,
  KnownPool,
  RoutedCall,
} from '../../../src/containers/contract.ts';
import type { ModuleDefinition } from '../../../src/containers/module.ts';
import { CallRouter } from '../../../src/containers/calls/call-router.ts';
import type { CallRouterOptions } from '../../../src/containers/calls/call-options.ts';

type Entry = { owner: NodeId | undefined; version: number };

export function poolOf(containers: number, more: Partial<PoolRecord> = {}): KnownPool {
  const record: PoolRecord = {
    major: 7,
    minor: 0,
    module: 'counter',
    moduleVersion: 0,
    containers,
    copies: 1,
    durability: 'memory',
    restart: false,
    params: null,
    state: 'active',
  };
  return { name: 'visits', record: { ...record, ...more } };
}

export class FakeAddressTable implements AddressTable {
  readonly known = new Map<string, KnownPool>();
  readonly #entries = new Map<string, Entry>();
  readonly #watchers = new Map<string, Set<() => void>>();
  version = 0;

  pool(name: string): KnownPool | undefined {
    return this.known.get(name);
  }

  poolByNumber(major: number): KnownPool | undefined {
    return this.pools().find(({ record }) => record.major === major);
  }

  pools(): readonly KnownPool[] {
    return [...this.known.values()];
  }

  ownerOf(pool: KnownPool, container: number): NodeId | undefined {
    return this.#entries.get(keyOf(pool, container))?.owner;
  }

  versionOf(pool: KnownPool, container: number): number {
    return this.#entries.get(keyOf(pool, container))?.version ?? 0;
  }

  addOwnerHint(pool: KnownPool, container: number, owner: NodeId | undefined, version: number): void {
    if (version <= this.versionOf(pool, container)) return;
    const before = this.ownerOf(pool, container);
    this.#entries.set(keyOf(pool, container), { owner, version });
    this.version = Math.max(this.version, version);
    if (before === owner) return;
    for (const changed of [...(this.#watchers.get(keyOf(pool, container)) ?? [])]) changed();
  }

  watchOwner(pool: KnownPool, container: number, changed: () => void): Cancel {
    const watchers = this.#watchers.get(keyOf(pool, container)) ?? new Set();
    this.#watchers.set(keyOf(pool, container), watchers);
    watchers.add(changed);
    return () => watchers.delete(changed);
  }

  get watched(): number {
    return [...this.#watchers.values()].reduce((sum, { size }) => sum + size, 0);
  }

  hash(): string {
    return '';
  }
}

function keyOf(pool: KnownPool, container: number): string {
  return `${pool.name}/${container}`;
}

/** What a container has run and answered, wherever it was. */
export type Ran = { readonly container: number; readonly id: string; readonly node: string };

/** What the owner does with a call instead of running it at once. */
export type OwnerScript = (call: IncomingCall, run: () => CallOutput, done: Done<CallOutput>) => Cancel | undefined;

export class CallTestNode {
  readonly name: string;
  readonly identity: Identity;
  readonly table = new FakeAddressTable();
  readonly calls: CallRouter;
  readonly counts = new Map<string, number>();
  readonly definitions = new Map<string, ModuleDefinition>();
  manner: OwnerScript | undefined;
  /** Refuses everything with this code, as an owner. */
  refuses: ErrorCode | undefined;
  /** Connected, and silent: nothing it is asked is answered. */
  isFrozen = false;
  /** Nobody listens there. */
  isDown = false;
  isAlive = true;
  /** Calls that it has in its inbox. */
  readonly inHand = new Set<string>();
  readonly hosting: ContainerHosting;

  constructor(scene: CallHarness, name: string, id: NodeId, options: Partial<CallRouterOptions>) {
    this.name = name;
    this.identity = { id, name, host: name, port: 1, generation: 1, roles: ['worker'], dc: 'local' };
    this.hosting = scene.hostingOf(this);
    this.calls = new CallRouter(
      {
        self: this.identity,
        clock: scene.clock,
        random: new Random(name),
        streams: scene.streamsOf(this),
        table: this.table,
        hosting: this.hosting,
        addressOf: (node) => scene.seats.find(({ identity }) => identity.id === node)?.identity,
        nodeByName: (other) => scene.seats.find((seat) => seat.name === other)?.identity.id,
        isAlive: (node) => scene.seatOf(node).isAlive,
        modules: { get: (module) => this.definitions.get(module) },
        count: (what) => void this.counts.set(what, this.count(what) + 1),
      },
      options,
    );
  }

  count(what: string): number {
    return this.counts.get(what) ?? 0;
  }
}

export type Sent = { readonly to: string; readonly kind: string; readonly atMs: number };

export class CallHarness {
  readonly timeline = new Timeline();
  readonly seats: readonly CallTestNode[];
  readonly pool: KnownPool;
  /** Runs of methods, each of which changed the state. */
  readonly ran: Ran[] = [];
  readonly sent: Sent[] = [];
  readonly answers = new Map<string, Uint8Array>();
  readonly lineMs = 1;
  /** How long replies of owners take. */
  replyMs = 1;
  /** How often each reply arrives; a transport would never do that. */
  copies = 1;
  /** Replies that are to be lost. */
  loses: (kind: string) => boolean = () => false;
  readonly #open = new Map<CallTestNode, Set<(outcome: Outcome<Uint8Array>) => void>>();
  #version = 0;

  constructor(names: readonly string[], containers: number, options: Partial<CallRouterOptions> = {}) {
    this.seats = names.map((name, index) => new CallTestNode(this, name, idOf(index), options));
    this.pool = poolOf(containers);
    for (const seat of this.seats) seat.table.known.set(this.pool.name, this.pool);
    for (let container = 0; container < containers; container++) {
      this.own(container, names[container % names.length]);
    }
  }

  readonly clock: Clock = {
    nowMs: () => this.timeline.nowMs,
    wallMs: () => 0,
    schedule: (delayMs, run) => this.timeline.after(delayMs, run),
  };

  seat(name: string): CallTestNode {
    return this.seats.find((seat) => seat.name === name) ?? assert.fail(`no seat ${name}`);
  }

  seatOf(node: NodeId): CallTestNode {
    return this.seats.find(({ identity }) => identity.id === node) ?? assert.fail(`no node ${node}`);
  }

  /** Everybody, or only those named, is told at once. */
  own(
    container: number,
    owner: string | undefined,
    told: readonly string[] = this.seats.map(({ name }) => name),
  ): void {
    this.#version += 1;
    const id = owner === undefined ? undefined : this.seat(owner).identity.id;
    for (const name of told) this.seat(name).table.addOwnerHint(this.pool, container, id, this.#version);
  }

  advance(ms: number): void {
    this.timeline.runUntil(this.timeline.nowMs + ms);
  }

  /** The connections of everybody to that node break. */
  sever(name: string): void {
    const open = [...(this.#open.get(this.seat(name)) ?? [])];
    for (const end of open) end(failure('NETWORK_TIMEOUT', 'the connection was lost'));
  }

  kill(name: string): void {
    this.seat(name).isDown = true;
    this.sever(name);
  }

  call(from: string, call: Partial<RoutedCall> = {}): Watched {
    return new Watched(this, from, call);
  }

  sendings(kind = 'call'): number {
    return this.sent.filter((sent) => sent.kind === kind).length;
  }

  streamsOf(from: CallTestNode): Pick<Streams, 'request' | 'open'> {
    return {
      open: () => assert.fail('flows have tests of their own'),
      request: (to, body, timeoutMs, done) => this.#request(from, to, body.slice(), timeoutMs, done),
    };
  }

  #request(from: CallTestNode, to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel {
    const seat = this.seat(to.host);
    const message = decodeMessage(body);
    this.sent.push({ to: seat.name, kind: message.kind, atMs: this.timeline.nowMs });
    const open = this.#open.get(seat) ?? new Set();
    this.#open.set(seat, open);
    let left = this.copies;
    const end = (outcome: Outcome<Uint8Array>): void => {
      if (left === 0) return;
      left -= 1;
      if (left > 0) return done(outcome);
      late();
      open.delete(end);
      done(outcome);
    };
    const endAll = (outcome: Outcome<Uint8Array>): void => {
      left = Math.min(left, 1);
      end(outcome);
    };
    const late = this.timeline.after(timeoutMs, () => endAll(failure('DEADLINE')));
    open.add(endAll);
    this.timeline.after(this.lineMs, () => {
      if (seat.isDown) return endAll(failure('UNREACHABLE', 'refused'));
      if (seat.isFrozen) return;
      seat.calls.handle(from.identity, message, timeoutMs - this.lineMs, (outcome) => {
        if (seat.isFrozen || (outcome.ok && this.loses(decodeMessage(outcome.value).kind))) return;
        const replies = this.copies;
        this.timeline.after(this.replyMs, () => {
          for (let i = 0; i < replies; i++) end(outcome);
        });
      });
    });
    return () => void this.timeline.after(0, () => endAll(failure('CANCELLED')));
  }

  hostingOf(seat: CallTestNode): ContainerHosting {
    return {
      changed: () => {},
      call: (call, done) => this.#host(seat, call, done),
      callStatus: ({ id }) => (seat.inHand.has(formatCallId(id)) ? 'running' : 'unknown'),
      lowestOpen: (pool) => {
        const { containers } = pool.record;
        const own = Array.from({ length: containers }, (_, i) => i);
        return own.find((container) => seat.table.ownerOf(pool, container) === seat.identity.id);
      },
      containers: () => [],
      stop: (done) => done(success(undefined)),
    };
  }

  #host(seat: CallTestNode, call: IncomingCall, done: Done<CallOutput>): Cancel {
    if (seat.refuses !== undefined) {
      done(failure(seat.refuses, 'not now'));
      return () => {};
    }
    if (seat.table.ownerOf(call.pool, call.container) !== seat.identity.id) {
      done(failure('STALE_TABLE', 'not mine'));
      return () => {};
    }
    const run = (): CallOutput => ({ value: this.#run(seat, call) });
    if (seat.manner !== undefined) return seat.manner(call, run, done) ?? ((): void => {});
    done(success(run()));
    return () => {};
  }

  /** Answers with the container, the method and how often it has run anything. */
  #run(seat: CallTestNode, { container, id, method }: IncomingCall): Uint8Array {
    const key = `${container}/${formatCallId(id)}`;
    const known = this.answers.get(key);
    if (known !== undefined) return known;
    this.ran.push({ container, id: formatCallId(id), node: seat.name });
    const times = this.ran.filter((one) => one.container === container).length;
    const value = encodeValue({ container, method, times });
    this.answers.set(key, value);
    return value;
  }
}

/** One call and how it ended. */
export class Watched {
  readonly endings: { readonly atMs: number; readonly outcome: Outcome<CallResult> }[] = [];
  readonly cancel: Cancel;
  static #counter = 0;

  constructor(scene: CallHarness, from: string, call: Partial<RoutedCall>) {
    Watched.#counter += 1;
    const id = { session: 'test', generation: 1, counter: Watched.#counter };
    const basic = { pool: 'visits', method: 'add', args: encodeValue([1]), lowestPending: 1, timeoutMs: 120_000, id };
    const wanted = { ...basic, route: { id: 0 }, ...call };
    this.cancel = scene.seat(from).calls.call(wanted, (outcome) => {
      this.endings.push({ atMs: scene.timeline.nowMs, outcome });
    });
  }

  get isOver(): boolean {
    return this.endings.length > 0;
  }

  get #only(): { readonly atMs: number; readonly outcome: Outcome<CallResult> } {
    const [ending, ...more] = this.endings;
    assert.equal(more.length, 0, 'it ended more than once');
    return ending ?? assert.fail('it has not ended');
  }

  get atMs(): number {
    return this.#only.atMs;
  }

  get code(): ErrorCode | 'ok' {
    const { outcome } = this.#only;
    return outcome.ok ? 'ok' : outcome.error.code;
  }

  get words(): string {
    const { outcome } = this.#only;
    return outcome.ok ? '' : outcome.error.message;
  }

  /** Of one container, or what an aggregate made. */
  get value(): unknown {
    const { outcome } = this.#only;
    assert.ok(outcome.ok, outcome.ok ? '' : `${outcome.error.code}: ${outcome.error.message}`);
    assert.ok('value' in outcome.value, 'it has no single value');
    return decodeValue(outcome.value.value);
  }

  get parts(): readonly unknown[] {
    const { outcome } = this.#only;
    assert.ok(outcome.ok, outcome.ok ? '' : `${outcome.error.code}: ${outcome.error.message}`);
    assert.ok('parts' in outcome.value, 'it has no parts');
    return outcome.value.parts.map((part) => (part.ok ? decodeValue(part.value) : part.code));
  }
}

/** Node 0 has nothing but zeros: nobody may take it for nobody. */
export function idOf(index: number): NodeId {
  return String(index).padStart(32, '0') as NodeId;
}
