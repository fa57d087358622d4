/**
 * Fake cluster for client sessions: simulated nodes with one container behind all of them, which executes each call id
 * once. Tests inject faults: no reply, lost replies, refusals, crashes.
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
    // Never executed: the test provides the stream.
    steps: { readonly: true, run: async function* (): AsyncGenerator<number> {} },
  },
});

export type RouteCallMessage = CallMessageOf<'routeCall'>;
/** Handles a call instead of the node; `undefined`: the node executes it. */
export type FaultInjection = (node: string, call: RouteCallMessage, reply: Done<Uint8Array>) => 'handled' | undefined;

type Client = { readonly streams: Streams; readonly clock: Clock };

export class FakeCluster {
  readonly names: readonly string[];
  readonly world: SimulatedWorld<Client>;
  /** `node method id` of each received call. */
  readonly received: string[] = [];
  /** `lowestPending` of each received call. */
  readonly lowestPending: number[] = [];
  /** Ids of the executed calls. */
  readonly executed: string[] = [];
  readonly #replies = new Map<string, Uint8Array>();
  sum = 0;
  injectFault: FaultInjection = () => undefined;
  /** Handles all requests but calls, echoes and member lists. */
  onRequest: (node: string, message: Message, reply: Done<Uint8Array>) => void = (_node, message) =>
    assert.fail(`unexpected request ${message.kind}`);
  /** The items of a streaming method at that node. */
  stream: (node: string) => Outcome<AsyncIterable<unknown>> = () => failure('UNKNOWN_METHOD');

  constructor(nodes: number) {
    this.names = Array.from({ length: nodes }, (_, i) => `n${i + 1}`);
    this.world = new SimulatedWorld<Client>({
      seed: 'client',
      names: [...this.names, 'client'],
      failpoints: false,
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

  /** A session whose only configured address is n1, unless options name others. */
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

  /** Advances simulated time until the promise has settled; fails after `limitMs`. */
  async until<T>(promise: Promise<T>, limitMs = 120_000): Promise<T> {
    let settled = false;
    const settling = promise.finally(() => (settled = true));
    settling.catch(() => undefined);
    const limit = this.world.timeline.nowMs + limitMs;
    while (!settled) {
      assert.ok(this.world.timeline.nowMs < limit, `no result after ${limitMs} ms`);
      await this.advance(10);
    }
    return await settling;
  }

  /** Advances simulated time and runs the continuations of settled promises. */
  async advance(durationMs: number): Promise<void> {
    const end = this.world.timeline.nowMs + durationMs;
    while (this.world.timeline.nowMs < end) {
      this.world.advance(Math.min(10, end - this.world.timeline.nowMs));
      await new Promise(setImmediate);
    }
  }

  run(call: RouteCallMessage): Uint8Array {
    const id = formatCallId(call);
    const known = this.#replies.get(id);
    if (known !== undefined) return known;
    this.executed.push(id);
    const [by] = decodeValue(call.args) as [number];
    if (call.method === 'add') this.sum += by;
    const reply = encodeMessage(routeCallReplyOf(success({ value: encodeValue(this.sum) })));
    this.#replies.set(id, reply);
    return reply;
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
        const start: StartStreamingCall = (_args, done) => {
          const outcome = this.stream(node);
          done(outcome.ok ? success({ stream: encoded(outcome.value) }) : outcome);
          return () => {};
        };
        return new ResultStreamWriter(stream, { clock, timeoutMs: call.timeoutMs, start, ended: () => {} }).events;
      },
    };
  }

  #request(node: string, message: Message, reply: Done<Uint8Array>): void {
    if (message.kind === 'echo') return reply(success(encodeMessage({ kind: 'echoReply', payload: message.payload })));
    if (message.kind === 'listMembers')
      return reply(success(encodeMessage({ kind: 'listMembersReply', members: this.#members() })));
    if (message.kind !== 'routeCall') return this.onRequest(node, message, reply);
    const call = message;
    this.received.push(`${node} ${call.method} ${formatCallId(call)}`);
    this.lowestPending.push(call.lowestPending);
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

export async function connectedSession(
  cluster: FakeCluster,
  options: Partial<SessionOptions> = {},
): Promise<ClusterSession> {
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
