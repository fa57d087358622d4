/**
 * A few nodes with calls between them on simulated time: tables can be stale, owners frozen, disconnected or refusing,
 * replies delayed or lost. The state of containers outlives its owners and remembers call ids, as the real one does.
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
  IncomingCall,
  CallOutput,
  CallResult,
  ContainerHosting,
  KnownPool,
  RoutedCall,
} from '../../../src/containers/contract.ts';
import type { ModuleDefinition } from '../../../src/containers/module.ts';
import { FakeAddressTable } from '../../fakes/fake-address-table.ts';
import { CallRouter } from '../../../src/containers/calls/call-router.ts';
import type { CallRouterOptions } from '../../../src/containers/calls/call-options.ts';

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

/** One run of a method, wherever the container was. */
export type Ran = { readonly container: number; readonly id: string; readonly node: string };

/** Replaces the normal execution of a call at its owner. */
export type OwnerScript = (call: IncomingCall, run: () => CallOutput, done: Done<CallOutput>) => Cancel | undefined;

export class CallTestNode {
  readonly name: string;
  readonly identity: Identity;
  readonly table = new FakeAddressTable();
  readonly calls: CallRouter;
  readonly counts = new Map<string, number>();
  readonly definitions = new Map<string, ModuleDefinition>();
  script: OwnerScript | undefined;
  /** The code with which the node refuses all calls as an owner. */
  refusalCode: ErrorCode | undefined;
  /** Connected, but it replies to nothing. */
  isFrozen = false;
  /** Refuses connections. */
  isDown = false;
  isAlive = true;
  /** Call ids in its inbox. */
  readonly pendingCalls = new Set<string>();
  readonly hosting: ContainerHosting;

  constructor(harness: CallHarness, name: string, id: NodeId, options: Partial<CallRouterOptions>) {
    this.name = name;
    this.identity = { id, name, host: name, port: 1, generation: 1, roles: ['worker'], dc: 'local' };
    this.hosting = harness.hostingOf(this);
    this.calls = new CallRouter(
      {
        self: this.identity,
        clock: harness.clock,
        random: new Random(name),
        streams: harness.streamsOf(this),
        table: this.table,
        hosting: this.hosting,
        addressOf: (node) => harness.nodes.find(({ identity }) => identity.id === node)?.identity,
        nodeByName: (other) => harness.nodes.find((node) => node.name === other)?.identity.id,
        isAlive: (node) => harness.nodeOf(node).isAlive,
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
  readonly nodes: readonly CallTestNode[];
  readonly pool: KnownPool;
  /** All runs of methods; each has changed state. */
  readonly ran: Ran[] = [];
  readonly sent: Sent[] = [];
  readonly results = new Map<string, Uint8Array>();
  readonly requestMs = 1;
  /** How long a reply takes to the caller. */
  replyMs = 1;
  /** How often each reply arrives; a real transport delivers it once. */
  replyCopies = 1;
  /** True for replies that are lost. */
  losesReply: (kind: string) => boolean = () => false;
  readonly #open = new Map<CallTestNode, Set<(outcome: Outcome<Uint8Array>) => void>>();
  #version = 0;

  constructor(names: readonly string[], containers: number, options: Partial<CallRouterOptions> = {}) {
    this.nodes = names.map((name, index) => new CallTestNode(this, name, idOf(index), options));
    this.pool = poolOf(containers);
    for (const node of this.nodes) node.table.known.set(this.pool.name, this.pool);
    for (let container = 0; container < containers; container++) {
      this.setOwner(container, names[container % names.length]);
    }
  }

  readonly clock: Clock = {
    nowMs: () => this.timeline.nowMs,
    wallMs: () => 0,
    schedule: (delayMs, run) => this.timeline.after(delayMs, run),
  };

  node(name: string): CallTestNode {
    return this.nodes.find((node) => node.name === name) ?? assert.fail(`no node ${name}`);
  }

  nodeOf(node: NodeId): CallTestNode {
    return this.nodes.find(({ identity }) => identity.id === node) ?? assert.fail(`no node ${node}`);
  }

  /** Updates the tables of all nodes, or only of those named, at once. */
  setOwner(
    container: number,
    owner: string | undefined,
    informed: readonly string[] = this.nodes.map(({ name }) => name),
  ): void {
    this.#version += 1;
    const id = owner === undefined ? undefined : this.node(owner).identity.id;
    for (const name of informed) this.node(name).table.addOwnerHint(this.pool, container, id, this.#version);
  }

  advance(ms: number): void {
    this.timeline.runUntil(this.timeline.nowMs + ms);
  }

  /** Breaks the connections of all nodes to that node. */
  breakConnections(name: string): void {
    const open = [...(this.#open.get(this.node(name)) ?? [])];
    for (const end of open) end(failure('NETWORK_TIMEOUT', 'the connection was lost'));
  }

  kill(name: string): void {
    this.node(name).isDown = true;
    this.breakConnections(name);
  }

  call(from: string, call: Partial<RoutedCall> = {}): ObservedCall {
    return new ObservedCall(this, from, call);
  }

  sentCount(kind = 'call'): number {
    return this.sent.filter((sent) => sent.kind === kind).length;
  }

  streamsOf(from: CallTestNode): Pick<Streams, 'request' | 'open'> {
    return {
      open: () => assert.fail('result streams have their own tests'),
      request: (to, body, timeoutMs, done) => this.#request(from, to, body.slice(), timeoutMs, done),
    };
  }

  #request(from: CallTestNode, to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel {
    const node = this.node(to.host);
    const message = decodeMessage(body);
    this.sent.push({ to: node.name, kind: message.kind, atMs: this.timeline.nowMs });
    const open = this.#open.get(node) ?? new Set();
    this.#open.set(node, open);
    let left = this.replyCopies;
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
    this.timeline.after(this.requestMs, () => {
      if (node.isDown) return endAll(failure('UNREACHABLE', 'refused'));
      if (node.isFrozen) return;
      node.calls.handle(from.identity, message, timeoutMs - this.requestMs, (outcome) => {
        if (node.isFrozen || (outcome.ok && this.losesReply(decodeMessage(outcome.value).kind))) return;
        const replies = this.replyCopies;
        this.timeline.after(this.replyMs, () => {
          for (let i = 0; i < replies; i++) end(outcome);
        });
      });
    });
    return () => void this.timeline.after(0, () => endAll(failure('CANCELLED')));
  }

  hostingOf(node: CallTestNode): ContainerHosting {
    return {
      changed: () => {},
      call: (call, done) => this.#host(node, call, done),
      callStatus: ({ id }) => (node.pendingCalls.has(formatCallId(id)) ? 'running' : 'unknown'),
      lowestOpen: (pool) => {
        const { containers } = pool.record;
        const own = Array.from({ length: containers }, (_, i) => i);
        return own.find((container) => node.table.ownerOf(pool, container) === node.identity.id);
      },
      containers: () => [],
      stop: (done) => done(success(undefined)),
    };
  }

  #host(node: CallTestNode, call: IncomingCall, done: Done<CallOutput>): Cancel {
    if (node.refusalCode !== undefined) {
      done(failure(node.refusalCode, 'not now'));
      return () => {};
    }
    if (node.table.ownerOf(call.pool, call.container) !== node.identity.id) {
      done(failure('STALE_TABLE', 'not mine'));
      return () => {};
    }
    const run = (): CallOutput => ({ value: this.#run(node, call) });
    if (node.script !== undefined) return node.script(call, run, done) ?? ((): void => {});
    done(success(run()));
    return () => {};
  }

  /** Returns the container, the method and how often the container has run any method. */
  #run(node: CallTestNode, { container, id, method }: IncomingCall): Uint8Array {
    const key = `${container}/${formatCallId(id)}`;
    const known = this.results.get(key);
    if (known !== undefined) return known;
    this.ran.push({ container, id: formatCallId(id), node: node.name });
    const times = this.ran.filter((other) => other.container === container).length;
    const value = encodeValue({ container, method, times });
    this.results.set(key, value);
    return value;
  }
}

/** One call and how it ended. */
export class ObservedCall {
  readonly endings: { readonly atMs: number; readonly outcome: Outcome<CallResult> }[] = [];
  readonly cancel: Cancel;
  static #counter = 0;

  constructor(harness: CallHarness, from: string, call: Partial<RoutedCall>) {
    ObservedCall.#counter += 1;
    const id = { session: 'test', generation: 1, counter: ObservedCall.#counter };
    const basic = { pool: 'visits', method: 'add', args: encodeValue([1]), lowestPending: 1, timeoutMs: 120_000, id };
    const wanted = { ...basic, route: { id: 0 }, ...call };
    this.cancel = harness.node(from).calls.call(wanted, (outcome) => {
      this.endings.push({ atMs: harness.timeline.nowMs, outcome });
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

  get message(): string {
    const { outcome } = this.#only;
    return outcome.ok ? '' : outcome.error.message;
  }

  /** The result of one container, or of an aggregate. */
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

/** The id of node 0 is all zeros: it must not be taken for "no node". */
export function idOf(index: number): NodeId {
  return String(index).padStart(32, '0') as NodeId;
}
