/**
 * Nodes that answer clients as real ones do, with one container behind all of them that remembers what it has run. Each
 * test says what they do wrong: keep silent, lose answers, stop. Shared by the tests of this folder.
 */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { type Done, failure, type Outcome, success } from '../../src/base/errors.ts';
import { nodeIdFrom, formatCallId } from '../../src/base/ids.ts';
import type { Clock, Identity, StreamService, Streams } from '../../src/base/ports.ts';
import { Random } from '../../src/base/random.ts';
import { type StartStreamingCall, ResultStreamWriter } from '../../src/containers/calls/result-stream-writer.ts';
import { routeCallReplyOf } from '../../src/containers/calls/call-messages.ts';
import type { ContainerCallResult } from '../../src/containers/contract.ts';
import { module } from '../../src/containers/module.ts';
import type { CallMessageOf } from '../../src/messages/calls.ts';
import { decodeMessage, encodeMessage, type Message } from '../../src/messages/catalogue.ts';
import { decodeValue, encodeValue } from '../../src/messages/codec/value.ts';
import { SimulatedWorld } from '../../src/simulation/world/simulated-world.ts';
import { type ClusterSession, openSession, type SessionOptions } from '../../src/client/session.ts';

export const counter = module('counter', {
  methods: {
    add: (_ctx, by: number): number => by,
    read: {
      readonly: true,
      run: (): number => 0,
      aggregate: (parts: number[]): number => parts.reduce((a, b) => a + b, 0),
    },
    each: { readonly: true, run: (): number => 0 },
    // The body never runs here: nodes answer as the test says.
    steps: { readonly: true, run: async function* (): AsyncGenerator<number> {} },
  },
});

export type RouteCallMessage = CallMessageOf<'routeCall'>;
/** What a node does with a call instead of answering it. `undefined`: it answers. */
export type FaultInjection = (node: string, call: RouteCallMessage, reply: Done<Uint8Array>) => 'handled' | undefined;

type Client = { readonly streams: Streams; readonly clock: Clock };

export class FakeCluster {
  readonly names: readonly string[];
  readonly world: SimulatedWorld<Client>;
  /** `node method id` of each call that arrived. */
  readonly received: string[] = [];
  readonly arrivedLowest: number[] = [];
  /** Ids of the calls that ran, each once. */
  readonly ran: string[] = [];
  readonly #answers = new Map<string, Uint8Array>();
  sum = 0;
  injectFault: FaultInjection = () => undefined;
  /** What is asked besides calls, echoes and members. */
  answerOther: (node: string, message: Message, reply: Done<Uint8Array>) => void = (_node, message) =>
    assert.fail(`nobody expects ${message.kind}`);
  /** What a method that gives a flow gives at that node. */
  flow: (node: string) => Outcome<AsyncIterable<unknown>> = () => failure('UNKNOWN_METHOD');

  constructor(nodes: number) {
    this.names = Array.from({ length: nodes }, (_, i) => `n${i + 1}`);
    this.world = new SimulatedWorld<Client>({
      seed: 'client',
      names: [...this.names, 'client'],
      rarities: false,
      boot: (ports, { name, index, host, boots }) => {
        const id = nodeIdFrom(new Uint8Array(16).fill(index));
        const roles = name === 'client' ? (['client'] as const) : (['worker'] as const);
        const { streams } = ports.listen({ id, name, host, port: 1, generation: boots, roles, dc: 'dc1' }, 'test');
        if (name !== 'client') streams.serve(this.#service(name, ports.clock));
        return { streams, clock: ports.clock };
      },
    });
    this.world.startAll();
    after(() => this.#stop());
  }

  /** A session that begins with n1, or with those nodes. */
  session(options: Partial<SessionOptions> = {}): ReturnType<typeof openSession> {
    const { streams, clock } = this.world.program('client') as Client;
    return openSession({
      ...{ streams, clock, random: new Random('session'), name: 'client-1', addresses: [this.address('n1')] },
      ...{ requestTimeoutMs: 500, retryTimeoutMs: 60_000, tryNewServers: 16 },
      ...options,
    });
  }

  address(name: string): { host: string; port: number } {
    return { host: `10.0.0.${[...this.names, 'client'].indexOf(name)}`, port: 1 };
  }

  /** Lets the world go on until the promise has ended; a test that waits longer than that has failed. */
  async until<T>(promise: Promise<T>, limitMs = 120_000): Promise<T> {
    let settled = false;
    const ended = promise.finally(() => (settled = true));
    ended.catch(() => undefined);
    const limit = this.world.timeline.nowMs + limitMs;
    while (!settled) {
      assert.ok(this.world.timeline.nowMs < limit, `nothing after ${limitMs} ms`);
      await this.pass(10);
    }
    return await ended;
  }

  /** Time passes, and promises that end in it are followed. */
  async pass(durationMs: number): Promise<void> {
    const end = this.world.timeline.nowMs + durationMs;
    while (this.world.timeline.nowMs < end) {
      this.world.advance(Math.min(10, end - this.world.timeline.nowMs));
      await new Promise(setImmediate);
    }
  }

  run(call: RouteCallMessage): Uint8Array {
    const id = formatCallId(call);
    const known = this.#answers.get(id);
    if (known !== undefined) return known;
    this.ran.push(id);
    const [by] = decodeValue(call.args) as [number];
    if (call.method === 'add') this.sum += by;
    const answer = encodeMessage(routeCallReplyOf(success({ value: encodeValue(this.sum) })));
    this.#answers.set(id, answer);
    return answer;
  }

  parts(values: readonly (number | 'lost')[]): Uint8Array {
    const parts = values.map((value, container): ContainerCallResult =>
      value === 'lost'
        ? { container, ok: false, code: 'NETWORK_TIMEOUT', message: 'lost', stateChanged: 'maybe' }
        : { container, ok: true, value: encodeValue(value) },
    );
    return encodeMessage(routeCallReplyOf(success({ parts })));
  }

  #service(node: string, clock: Clock): StreamService {
    return {
      request: (_from, body, _remainingMs, reply) => this.#request(node, decodeMessage(body), reply),
      notify: () => {},
      open: (_from, opening, stream) => {
        const call = decodeMessage(opening);
        assert.equal(call.kind, 'openResultStream');
        this.received.push(`${node} ${call.method} ${formatCallId(call)}`);
        const begin: StartStreamingCall = (_args, done) => {
          const outcome = this.flow(node);
          done(outcome.ok ? success({ flow: encoded(outcome.value) }) : outcome);
          return () => {};
        };
        return new ResultStreamWriter(stream, { clock, timeoutMs: call.timeoutMs, begin, ended: () => {} }).events;
      },
    };
  }

  #request(node: string, message: Message, reply: Done<Uint8Array>): void {
    if (message.kind === 'echo') return reply(success(encodeMessage({ kind: 'echoReply', payload: message.payload })));
    if (message.kind === 'listMembers')
      return reply(success(encodeMessage({ kind: 'listMembersReply', members: this.#members() })));
    if (message.kind !== 'routeCall') return this.answerOther(node, message, reply);
    const call = message;
    this.received.push(`${node} ${call.method} ${formatCallId(call)}`);
    this.arrivedLowest.push(call.lowestPending);
    if (this.injectFault(node, call, reply) === undefined) reply(success(this.run(call)));
  }

  #members(): (Message & { kind: 'listMembersReply' })['members'] {
    return this.names.map((name, index) => {
      const id = nodeIdFrom(new Uint8Array(16).fill(index));
      const entry: Identity = { id, name, ...this.address(name), generation: 1, roles: ['worker'], dc: 'dc1' };
      return {
        entry: { ...entry, watchedBy: undefined },
        ...{ state: this.world.isUp(name) ? ('alive' as const) : ('dead' as const), incarnation: 0, health: 0 },
        ...{ silentMs: 0, stuck: false, lagMs: 0, roundTripUs: undefined, coordinate: undefined },
      };
    });
  }

  #stop(): void {
    for (const name of this.world.up()) this.world.crash(name);
  }
}

export async function opened(cluster: FakeCluster, options: Partial<SessionOptions> = {}): Promise<ClusterSession> {
  const session = cluster.session(options);
  await cluster.until(session.waitUntilConnected(1_000));
  return session;
}

export function refusedCall(code: Parameters<typeof failure>[0]): Uint8Array {
  return encodeMessage(routeCallReplyOf(failure(code)));
}

async function* encoded(items: AsyncIterable<unknown>): AsyncGenerator<Uint8Array> {
  for await (const item of items) yield encodeValue(item);
}
