/** Conformance of Streams: every request ends once, one-way messages are bounded, connections are reported. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { type Outcome, RemusterError, success } from '../../../src/base/errors.ts';
import {
  type Address,
  type Clock,
  type ConnectionChange,
  type Identity,
  portClosedReason,
  type StreamService,
  type Streams,
} from '../../../src/base/ports.ts';
import { describeByteStreams } from './byte-streams.ts';
import {
  type OpenHarness,
  type TestWorld,
  outcomeOf,
  expectFailure,
  expectSuccess,
  suiteOptions,
  utf8Text,
  utf8,
  unwrap,
} from './harness.ts';

export type StreamsNode = {
  readonly self: Identity;
  readonly streams: Streams;
  readonly clock: Clock;
  /** Kills the process of the node; its host stays up. */
  kill(): Promise<void>;
};
export type StreamsHarness = TestWorld & {
  /** Adds a node to the same cluster; all nodes can reach each other. */
  join(name: string): Promise<StreamsNode>;
  /** Restarts a killed node at the same address with the next generation. */
  restart(node: StreamsNode): Promise<StreamsNode>;
};

const timeoutMsMax = 10_000;

export type StreamsPair = { readonly harness: StreamsHarness; readonly a: StreamsNode; readonly b: StreamsNode };

export async function openStreamsPair(open: OpenHarness<StreamsHarness>, t: TestContext): Promise<StreamsPair> {
  const harness = await open(t);
  return { harness, a: await harness.join('a'), b: await harness.join('b') };
}

/** A service that echoes requests; each part can be replaced. */
export function serviceWith(parts: Partial<StreamService>): StreamService {
  return {
    request: (_from, body, _remainingMs, reply) => reply(success(body)),
    notify: () => undefined,
    open: () => ({ chunk: () => undefined, writable: () => undefined, ended: () => undefined }),
    ...parts,
  };
}

/** The body is only valid during the call, so the outcome holds a copy. */
function requestFrom(
  from: StreamsNode,
  to: Address,
  body: Uint8Array,
  timeoutMs = timeoutMsMax,
): Promise<Outcome<Uint8Array>> {
  return outcomeOf((done) => {
    from.streams.request(to, body, timeoutMs, (outcome) => done(outcome.ok ? success(outcome.value.slice()) : outcome));
  });
}

function pause({ settle }: TestWorld, { clock }: StreamsNode, delayMs: number): Promise<void> {
  return settle(new Promise((resolve) => void clock.schedule(delayMs, resolve)));
}

export function describeStreams(name: string, open: OpenHarness<StreamsHarness>): void {
  describe(`${name} is Streams`, suiteOptions, () => {
    describeRequests(open);
    describeFailures(open);
    describeEndings(open);
    describeNotify(open);
    describeConnections(open);
    describeByteStreams(open);
  });
}

function describeRequests(open: OpenHarness<StreamsHarness>): void {
  it('carries a request and its reply, in both directions, with the identity of the caller', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const callers: string[] = [];
    for (const node of [a, b]) {
      node.streams.serve(
        serviceWith({
          request: (from, body, _remainingMs, reply) => {
            callers.push(from.name);
            reply(success(utf8.encode(`${utf8Text(body)} to ${node.self.name}`)));
          },
        }),
      );
    }
    assert.equal(utf8Text(unwrap(await harness.settle(requestFrom(a, b.self, utf8.encode('hello'))))), 'hello to b');
    assert.equal(utf8Text(unwrap(await harness.settle(requestFrom(b, a.self, utf8.encode('hello'))))), 'hello to a');
    assert.deepEqual(callers, [a.self.name, b.self.name]);
  });

  it('matches many replies to their requests, whatever their order', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const pending: (() => void)[] = [];
    const request: StreamService['request'] = (_from, body, _remainingMs, reply) => {
      const value = body.slice();
      pending.push(() => reply(success(value)));
      if (pending.length === 300) for (const release of pending.toReversed()) release();
    };
    b.streams.serve(serviceWith({ request }));
    const requested = Array.from({ length: 300 }, (_, i) => requestFrom(a, b.self, utf8.encode(`request ${i}`)));
    const outcomes = await harness.settle(Promise.all(requested));
    for (const [i, outcome] of outcomes.entries()) assert.equal(utf8Text(unwrap(outcome)), `request ${i}`);
  });

  it('carries empty and large bodies, and does not need the buffer after the call', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    b.streams.serve(serviceWith({}));
    for (const size of [0, 1, 40_000, 300_000, 2_000_000]) {
      const body = Uint8Array.from({ length: size }, (_, i) => (i * 31) >>> 3);
      const expected = body.slice();
      const requested = requestFrom(a, b.self, body);
      body.fill(0);
      const outcome = unwrap(await harness.settle(requested));
      assert.equal(outcome.length, size);
      assert.ok(outcome.every((byte, i) => byte === expected[i]));
    }
  });

  it('passes the remaining time to the other side', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const remaining: number[] = [];
    const request: StreamService['request'] = (_from, body, remainingMs, reply) => {
      remaining.push(remainingMs);
      reply(success(body));
    };
    b.streams.serve(serviceWith({ request }));
    await harness.settle(requestFrom(a, b.self, utf8.encode('x'), 5_000));
    await harness.settle(requestFrom(a, b.self, utf8.encode('x'), 5_000));
    assert.ok(remaining.every((ms) => ms > 0 && ms <= 5_000));
  });
}

function describeFailures(open: OpenHarness<StreamsHarness>): void {
  it('carries code, message and stateChanged of an error', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const error = new RemusterError('NOT_LEADER', 'ask c', 'yes');
    b.streams.serve(serviceWith({ request: (_from, _body, _ms, reply) => reply({ ok: false, error }) }));
    const outcome = await harness.settle(requestFrom(a, b.self, utf8.encode('x')));
    assert.ok(!outcome.ok);
    assert.deepEqual([outcome.error.code, outcome.error.stateChanged], ['NOT_LEADER', 'yes']);
    assert.equal(outcome.error.message, 'ask c');
  });

  it('fails with INTERNAL and no details when a handler throws, and keeps serving', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    b.streams.serve(
      serviceWith({
        request: (_from, body, _ms, reply) => {
          if (utf8Text(body) === 'throw') throw new Error('a path and a secret');
          reply(success(body));
        },
      }),
    );
    const outcome = await harness.settle(requestFrom(a, b.self, utf8.encode('throw')));
    assert.ok(!outcome.ok);
    assert.equal(outcome.error.code, 'INTERNAL');
    assert.doesNotMatch(outcome.error.message, /secret/);
    assert.equal(utf8Text(unwrap(await harness.settle(requestFrom(a, b.self, utf8.encode('fine'))))), 'fine');
  });
}

function describeEndings(open: OpenHarness<StreamsHarness>): void {
  it('ends with DEADLINE without a reply in time, and ignores a late reply', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const late: (() => void)[] = [];
    const request: StreamService['request'] = (_from, body, _ms, reply) => {
      if (utf8Text(body) === 'now') reply(success(body));
      else late.push(() => reply(success(utf8.encode('late'))));
    };
    b.streams.serve(serviceWith({ request }));
    await harness.settle(requestFrom(a, b.self, utf8.encode('now')));
    await expectFailure<Uint8Array>(harness, 'DEADLINE', (done) =>
      a.streams.request(b.self, utf8.encode('never'), 60, done),
    );
    for (const release of late) release();
    assert.equal(utf8Text(unwrap(await harness.settle(requestFrom(a, b.self, utf8.encode('now'))))), 'now');
  });

  it('ends with CANCELLED when cancelled, once; cancelling late or twice is harmless', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    b.streams.serve(serviceWith({ request: () => undefined }));
    await expectFailure<Uint8Array>(harness, 'CANCELLED', (done) => {
      const cancel = a.streams.request(b.self, utf8.encode('x'), timeoutMsMax, done);
      a.clock.schedule(20, () => {
        cancel();
        cancel();
        a.clock.schedule(5, cancel);
      });
    });
    await pause(harness, a, 30);
  });

  it('ends a request in time that is sent while the loss of the connection is reported', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    let resend: (body: Uint8Array) => void = () => undefined;
    const again = outcomeOf<Uint8Array>((done) => {
      resend = (body) => void a.streams.request(b.self, body, 2_000, done);
    });
    const arrived = new Promise<void>((resolve) => b.streams.serve(serviceWith({ request: () => resolve() })));
    const first = outcomeOf<Uint8Array>((done) => {
      a.streams.request(b.self, utf8.encode('x'), timeoutMsMax, (outcome) => {
        resend(utf8.encode('again'));
        done(outcome);
      });
    });
    await harness.settle(arrived);
    await harness.settle(b.kill());
    const outcome = await harness.settle(first);
    assert.ok(!outcome.ok && outcome.error.code === 'NETWORK_TIMEOUT', 'its outcome is unknown');
    const back = await harness.settle(harness.restart(b));
    back.streams.serve(serviceWith({}));
    const second = await harness.settle(again);
    if (!second.ok) assert.equal(second.error.code, 'UNREACHABLE', 'it was not sent');
  });

  it('is cancelled before there is a connection', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    await expectFailure<Uint8Array>(harness, 'CANCELLED', (done) => {
      const cancel = a.streams.request(b.self, utf8.encode('x'), timeoutMsMax, done);
      cancel();
    });
  });

  it('ignores a second reply', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const request: StreamService['request'] = (_from, body, _ms, reply) => {
      reply(success(body));
      reply(success(utf8.encode('again')));
    };
    b.streams.serve(serviceWith({ request }));
    for (const word of ['one', 'two', 'three']) {
      assert.equal(utf8Text(unwrap(await harness.settle(requestFrom(a, b.self, utf8.encode(word))))), word);
    }
  });
}

function describeNotify(open: OpenHarness<StreamsHarness>): void {
  it('delivers one-way messages in order', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const received: string[] = [];
    const all = new Promise<void>((resolve) => {
      b.streams.serve(
        serviceWith({ notify: (_from, body) => void (received.push(utf8Text(body) ?? '') === 100 && resolve()) }),
      );
    });
    for (let i = 0; i < 100; i++) assert.equal(a.streams.notify(b.self, utf8.encode(String(i))), true);
    await harness.settle(all);
    assert.deepEqual(
      received,
      Array.from({ length: 100 }, (_, i) => String(i)),
    );
  });

  it('refuses a one-way message when the queue is full, and reports when it has space again', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    b.streams.serve(serviceWith({}));
    await harness.settle(requestFrom(a, b.self, utf8.encode('connect first')));
    const body = new Uint8Array(30_000);
    let accepted = 0;
    while (accepted < 100_000 && a.streams.notify(b.self, body)) accepted += 1;
    assert.ok(accepted < 100_000, 'the queue has no bound');
    await harness.settle(new Promise<void>((resolve) => a.streams.drained(b.self, resolve)));
    assert.equal(a.streams.notify(b.self, body), true);
  });
}

function describeConnections(open: OpenHarness<StreamsHarness>): void {
  it('ends with UNREACHABLE where no node listens, and reports it to watchers', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    await b.kill();
    const refused = new Promise<ConnectionChange>((resolve) => a.streams.watch(resolve));
    await expectFailure<Uint8Array>(harness, 'UNREACHABLE', (done) =>
      a.streams.request(b.self, utf8.encode('x'), timeoutMsMax, done),
    );
    const change = await harness.settle(refused);
    assert.ok(change.kind === 'refused');
    assert.deepEqual(change.address, { host: b.self.host, port: b.self.port });
    assert.equal(change.reason, portClosedReason);
  });

  it('reports a connection and its loss to both sides; pending requests end', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const changes: string[] = [];
    const lost = Promise.withResolvers<void>();
    a.streams.watch((change) => {
      changes.push(change.kind === 'refused' ? 'refused' : `${change.kind} ${change.peer.name}`);
      if (change.kind === 'disconnected') assert.equal(change.graceful, false);
      if (change.kind === 'disconnected') lost.resolve();
    });
    const seenByB = new Promise<string>((resolve) => {
      b.streams.watch((change) => change.kind === 'connected' && resolve(change.peer.name));
    });
    b.streams.serve(
      serviceWith({ request: (_from, body, _ms, reply) => utf8Text(body) === 'now' && reply(success(body)) }),
    );
    await harness.settle(requestFrom(a, b.self, utf8.encode('now')));
    assert.equal(await harness.settle(seenByB), a.self.name);
    const requested = requestFrom(a, b.self, utf8.encode('never'));
    await pause(harness, a, 20);
    await b.kill();
    const outcome = await harness.settle(requested);
    assert.ok(!outcome.ok);
    assert.equal(outcome.error.code, 'NETWORK_TIMEOUT');
    await harness.settle(lost.promise);
    assert.deepEqual(changes, [`connected ${b.self.name}`, `disconnected ${b.self.name}`]);
  });

  it('reaches a restarted peer', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    b.streams.serve(serviceWith({}));
    await harness.settle(requestFrom(a, b.self, utf8.encode('before')));
    await b.kill();
    const again = await harness.restart(b);
    again.streams.serve(serviceWith({}));
    for (let repeats = 0; ; repeats++) {
      const outcome = await harness.settle(requestFrom(a, again.self, utf8.encode('after')));
      if (outcome.ok) break;
      assert.ok(repeats < 100, 'the restarted peer is not reached');
      await pause(harness, a, 50);
    }
  });

  it('ends all pending requests when closed', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    b.streams.serve(serviceWith({ request: () => undefined }));
    const requested = requestFrom(a, b.self, utf8.encode('x'));
    await pause(harness, a, 20);
    await expectSuccess<void>(harness, (done) => a.streams.close(done));
    assert.equal((await harness.settle(requested)).ok, false);
    assert.equal((await harness.settle(requestFrom(a, b.self, utf8.encode('x')))).ok, false);
  });
}
