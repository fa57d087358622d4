/** The near end of the membership thread, with a thread that is only a list of what it was told. */
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

function nearEnd() {
  const said: ToMembershipThread[] = [];
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
  const end = new MembershipProxy(
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
      thread: { send: (body) => void said.push(toMembershipThreadCodec.decode(body)) },
    },
    identity(1),
    {
      event: ({ type, name }) => reported.push(`${type} ${name}`),
      joined: () => reported.push('joined'),
      embedded: ({ version }) => reported.push(`embedded ${version}`),
      saveHints: (writes) => reported.push(`remember ${writes.length}`),
      onHalt: (error) => reported.push(`halted ${String(error)}`),
    },
  );
  const hears = (word: FromMembershipThread): void => end.handleMessage(fromMembershipThreadCodec.encode(word));
  const pass = (ms: number): void => void (nowMs += ms);
  return { end, said, reported, timers, requests, hears, pass, connection: (c: ConnectionChange) => watcher(c) };
}

it('shows itself before the thread has said anything, then what the thread reports, growing older', () => {
  const { end, hears, pass } = nearEnd();
  assert.deepEqual(
    end.members().map(({ entry, state }) => `${entry.name} ${state}`),
    ['n1 alive'],
  );
  const other = { ...initialLocalView(identity(2)), state: 'suspect', silentMs: 100 } as const;
  const { id } = other.entry;
  hears({
    kind: 'members',
    changed: [{ id, view: memberViewCodec.encode({ kind: 'view', view: other }) }],
    forgotten: [],
  });
  pass(50);
  assert.deepEqual(
    end.members().map(({ entry, state, silentMs }) => `${entry.name} ${state} ${silentMs}`),
    ['n1 alive 0', 'n2 suspect 150'],
  );
  hears({ kind: 'members', changed: [], forgotten: [identity(2).id] });
  assert.equal(end.members().length, 1);
});

it('tells the thread of connections that are gone, and beats', () => {
  const { end, said, timers, connection } = nearEnd();
  end.start({ incarnation: 3, known: [{ host: 'h', port: 1 }] });
  connection({ kind: 'connected', peer: identity(2) });
  connection({ kind: 'refused', address: { host: 'h', port: 2 }, reason: 'refused' });
  connection({ kind: 'disconnected', peer: identity(2), reason: 'reset', graceful: false });
  timers.shift()?.();
  assert.deepEqual(
    said.map(({ kind }) => kind),
    ['start', 'beat', 'refused', 'disconnected', 'beat'],
  );
});

it('asks for the thread over connections, and lets it answer what others ask', () => {
  const { end, said, requests, hears } = nearEnd();
  const ping = encodeMessage({ kind: 'streamPing' });
  const pong = { kind: 'streamPong', generation: 1, incarnation: 2 } as const;
  hears({ kind: 'request', call: 5, to: { host: 'h', port: 2 }, timeoutMs: 10, body: ping });
  requests[0]?.done(success(encodeMessage(pong)));
  assert.deepEqual(said.pop(), { kind: 'answered', call: 5, body: encodeMessage(pong) });
  let answer: unknown;
  end.handleRequest(identity(2), ping, (outcome) => (answer = outcome));
  const asked = said.pop();
  assert.ok(asked?.kind === 'asked');
  assert.deepEqual(asked.body, ping);
  hears({ kind: 'reply', call: asked.call, body: encodeMessage(pong) });
  assert.deepEqual(answer, success(encodeMessage(pong)));
});

it('reports what happened, and nothing after it was stopped', () => {
  const { end, reported, hears } = nearEnd();
  const { id, name } = identity(2);
  const event = { type: 'member.dead', id, name, generation: 1, incarnation: 0, why: 'x', accusers: ['n1'] } as const;
  hears({ kind: 'event', ...event, refusedTo: [], portIsClosed: false });
  hears({ kind: 'joined' });
  hears({ kind: 'remember', writes: [{ key: 'k', value: undefined }] });
  hears({ kind: 'halted', error: 'planted' });
  let left = false;
  end.leave('done', () => (left = true));
  end.stop();
  assert.ok(left);
  hears({ kind: 'joined' });
  assert.deepEqual(reported, ['member.dead n2', 'joined', 'remember 1', 'halted RemusterError: planted']);
});

it('hands new secrets on', () => {
  const { end, said } = nearEnd();
  end.setSecrets({ current: 'new', previous: ['old'] });
  end.setSecrets({ current: undefined, previous: [] });
  assert.deepEqual(said, [
    { kind: 'secrets', current: 'new', previous: ['old'] },
    { kind: 'secrets', current: undefined, previous: [] },
  ]);
});
