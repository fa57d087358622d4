/**
 * Conformance of Datagrams: a datagram arrives unchanged, with the identity of its sender, at the node it is addressed
 * to. Tests resend, because datagrams may be lost.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import { type Clock, datagramBytesMax, type Datagrams, type Identity } from '../../../src/base/ports.ts';
import { type OpenHarness, type TestWorld, expectSuccess, suiteOptions, utf8Text, utf8 } from './harness.ts';

export type DatagramsNode = { readonly self: Identity; readonly datagrams: Datagrams; readonly clock: Clock };
export type DatagramsHarness = TestWorld & {
  /** Adds a node to the same cluster; all nodes can reach each other. */
  join(name: string): Promise<DatagramsNode>;
};

const resendMs = 50;
const resendsMax = 100;

export function describeDatagrams(name: string, open: OpenHarness<DatagramsHarness>): void {
  describe(`${name} is Datagrams`, suiteOptions, () => {
    describeContents(open);
    describeAddressing(open);
    describeClose(open);
  });
}

function pause({ settle }: TestWorld, { clock }: DatagramsNode, delayMs: number): Promise<void> {
  return settle(new Promise((resolve) => void clock.schedule(delayMs, resolve)));
}

/** Resends until `isDone`. */
async function sendUntil(
  world: TestWorld,
  from: DatagramsNode,
  send: () => void,
  isDone: () => boolean,
): Promise<void> {
  for (let resends = 0; !isDone(); resends++) {
    assert.ok(resends < resendsMax, 'no datagram arrives');
    send();
    await pause(world, from, resendMs);
  }
}

function collect({ datagrams }: DatagramsNode): { from: Identity; body: string }[] {
  const received: { from: Identity; body: string }[] = [];
  datagrams.receive((from, body) => received.push({ from, body: utf8Text(body) ?? '' }));
  return received;
}

function describeContents(open: OpenHarness<DatagramsHarness>): void {
  it('delivers the bytes together with the identity of the sender', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const received = collect(b);
    await sendUntil(
      harness,
      a,
      () => a.datagrams.send(b.self, utf8.encode('hello')),
      () => received.length > 0,
    );
    assert.equal(received[0]?.body, 'hello');
    assert.deepEqual(received[0]?.from, a.self);
  });

  it('delivers in both directions at the same time', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const [receivedByA, receivedByB] = [collect(a), collect(b)];
    const send = (): void => {
      a.datagrams.send(b.self, utf8.encode('to b'));
      b.datagrams.send(a.self, utf8.encode('to a'));
    };
    await sendUntil(harness, a, send, () => receivedByA.length > 0 && receivedByB.length > 0);
    assert.equal(receivedByA[0]?.body, 'to a');
    assert.equal(receivedByB[0]?.body, 'to b');
  });

  it('carries empty datagrams and the largest allowed one, and refuses a larger one', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const sizes = new Set<number>();
    b.datagrams.receive((_from, body) => sizes.add(body.length));
    const send = (): void => {
      a.datagrams.send(b.self, new Uint8Array(0));
      a.datagrams.send(b.self, new Uint8Array(datagramBytesMax).fill(1));
    };
    await sendUntil(harness, a, send, () => sizes.size === 2);
    assert.deepEqual(
      [...sizes].toSorted((x, y) => x - y),
      [0, datagramBytesMax],
    );
    assert.throws(() => a.datagrams.send(b.self, new Uint8Array(datagramBytesMax + 1)));
  });

  it('sends what the buffer held at the time of the call', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const received = collect(b);
    const send = (): void => {
      const buffer = utf8.encode('first');
      a.datagrams.send(b.self, buffer);
      buffer.fill(0);
    };
    await sendUntil(harness, a, send, () => received.length > 0);
    assert.ok(received.every(({ body }) => body === 'first'));
  });
}

function describeAddressing(open: OpenHarness<DatagramsHarness>): void {
  it('delivers no datagram that is addressed to another node id at the same address', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const received = collect(b);
    const otherId = nodeIdFrom(new Uint8Array(16).fill(9));
    const send = (): void => {
      a.datagrams.send({ ...b.self, id: otherId }, utf8.encode('not for b'));
      a.datagrams.send(b.self, utf8.encode('for b'));
    };
    await sendUntil(harness, a, send, () => received.length >= 3);
    assert.ok(received.every(({ body }) => body === 'for b'));
  });

  it('reports no error for an address where no node listens', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    await expectSuccess<void>(harness, (done) => b.datagrams.close(done));
    a.datagrams.send(b.self, utf8.encode('unreceived'));
    await pause(harness, a, resendMs);
  });
}

function describeClose(open: OpenHarness<DatagramsHarness>): void {
  it('delivers nothing after close, and sending then is harmless', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const received = collect(b);
    await sendUntil(
      harness,
      a,
      () => a.datagrams.send(b.self, utf8.encode('one')),
      () => received.length > 0,
    );
    await expectSuccess<void>(harness, (done) => b.datagrams.close(done));
    const before = received.length;
    a.datagrams.send(b.self, utf8.encode('two'));
    b.datagrams.send(a.self, utf8.encode('three'));
    await pause(harness, a, resendMs);
    assert.equal(received.length, before);
  });
}
