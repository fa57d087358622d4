/** The proxy of the membership thread, with a fake thread that records the messages it receives. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type Done, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { ConnectionChange, Identity } from '../../base/ports.ts';
import { initialLocalView } from '../../membership/state/member-view.ts';
import { encodeMessage } from '../../messages/catalogue.ts';
import {
  type FromMembershipThread,
  type ToMembershipThread,
  fromMembershipThreadCodec,
  toMembershipThreadCodec,
  memberViewCodec,
} from './membership-thread-protocol.ts';
import { MembershipProxy } from './membership-proxy.ts';

function identity(n: number): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(n));
  return { id, name: `n${n}`, host: '10.0.0.1', port: n, generation: 1, roles: ['worker'], dc: 'dc1' };
}

function proxyScene() {
  const sent: ToMembershipThread[] = [];
  const reported: string[] = [];
  const timers: (() => void)[] = [];
  const requests: { readonly body: Uint8Array; readonly done: Done<Uint8Array> }[] = [];
  let watcher: (change: ConnectionChange) => void = () => {};
  let nowMs = 0;
  const clock = {
    nowMs: () => nowMs,
    wallMs: () => 0,
    schedule: (_delayMs: number, run: () => void) => {
      timers.push(run);
      return () => {};
    },
  };
  const proxy = new MembershipProxy(
    {
      clock,
      streams: {
        request: (_to, body, _timeoutMs, done) => {
          requests.push({ body: body.slice(), done });
          return () => {};
        },
        watch: (handler) => {
          watcher = handler;
        },
      },
      beatMs: 2_000,
      thread: { send: (body) => void sent.push(toMembershipThreadCodec.decode(body)) },
    },
    identity(1),
    {
      event: ({ type, name }) => reported.push(`${type} ${name}`),
      joined: () => reported.push('joined'),
      embedded: ({ version }) => reported.push(`embedded ${version}`),
      saveHints: (writes) => reported.push(`saveHints ${writes.length}`),
      onHalt: (error) => reported.push(`halted ${String(error)}`),
    },
  );
  const receive = (message: FromMembershipThread): void =>
    proxy.handleMessage(fromMembershipThreadCodec.encode(message));
  const advance = (ms: number): void => void (nowMs += ms);
  return { proxy, sent, reported, timers, requests, receive, advance, connection: (c: ConnectionChange) => watcher(c) };
}

it('lists this node before the first report, then the reported members with growing silence', () => {
  const { proxy, receive, advance } = proxyScene();
  assert.deepEqual(
    proxy.members().map(({ entry, state }) => `${entry.name} ${state}`),
    ['n1 alive'],
  );
  const other = { ...initialLocalView(identity(2)), state: 'suspect', silentMs: 100 } as const;
  const { id } = other.entry;
  receive({
    kind: 'members',
    changed: [{ id, view: memberViewCodec.encode({ kind: 'view', view: other }) }],
    removed: [],
  });
  advance(50);
  assert.deepEqual(
    proxy.members().map(({ entry, state, silentMs }) => `${entry.name} ${state} ${silentMs}`),
    ['n1 alive 0', 'n2 suspect 150'],
  );
  receive({ kind: 'members', changed: [], removed: [identity(2).id] });
  assert.equal(proxy.members().length, 1);
});

it('forwards lost and refused connections to the thread, and sends heartbeats', () => {
  const { proxy, sent, timers, connection } = proxyScene();
  proxy.start({ incarnation: 3, known: [{ host: 'h', port: 1 }] });
  connection({ kind: 'connected', peer: identity(2) });
  connection({ kind: 'refused', address: { host: 'h', port: 2 }, reason: 'refused' });
  connection({ kind: 'disconnected', peer: identity(2), reason: 'reset', graceful: false });
  timers.shift()?.();
  assert.deepEqual(
    sent.map(({ kind }) => kind),
    ['start', 'beat', 'refused', 'disconnected', 'beat'],
  );
});

it('sends requests of the thread over connections, and lets the thread reply to incoming requests', () => {
  const { proxy, sent, requests, receive } = proxyScene();
  const ping = encodeMessage({ kind: 'streamPing' });
  const pong = { kind: 'streamPong', generation: 1, incarnation: 2 } as const;
  receive({ kind: 'request', requestId: 5, to: { host: 'h', port: 2 }, timeoutMs: 10, body: ping });
  requests[0]?.done(success(encodeMessage(pong)));
  assert.deepEqual(sent.pop(), { kind: 'requestSucceeded', requestId: 5, body: encodeMessage(pong) });
  let replied: unknown;
  proxy.handleRequest(identity(2), ping, (outcome) => (replied = outcome));
  const incoming = sent.pop();
  assert.ok(incoming?.kind === 'incomingRequest');
  assert.deepEqual(incoming.body, ping);
  receive({ kind: 'reply', requestId: incoming.requestId, body: encodeMessage(pong) });
  assert.deepEqual(replied, success(encodeMessage(pong)));
});

it('reports events, and nothing after stop', () => {
  const { proxy, reported, receive } = proxyScene();
  const { id, name } = identity(2);
  const event = { type: 'member.dead', id, name, generation: 1, incarnation: 0, why: 'x', accusers: ['n1'] } as const;
  receive({ kind: 'event', ...event, refusedTo: [], portIsClosed: false });
  receive({ kind: 'joined' });
  receive({ kind: 'saveHints', writes: [{ key: 'k', value: undefined }] });
  receive({ kind: 'halted', error: 'injected' });
  let left = false;
  proxy.leave('done', () => (left = true));
  proxy.stop();
  assert.ok(left);
  receive({ kind: 'joined' });
  assert.deepEqual(reported, ['member.dead n2', 'joined', 'saveHints 1', 'halted RemusterError: injected']);
});

it('forwards new secrets to the thread', () => {
  const { proxy, sent } = proxyScene();
  proxy.setSecrets({ current: 'new', previous: ['old'] });
  proxy.setSecrets({ current: undefined, previous: [] });
  assert.deepEqual(sent, [
    { kind: 'setSecrets', current: 'new', previous: ['old'] },
    { kind: 'setSecrets', current: undefined, previous: [] },
  ]);
});
