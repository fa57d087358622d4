/**
 * Conformance of Datagrams: what arrives is what was sent, by whom it says, to whom it was addressed. Repeats because
 * datagrams may be lost.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import { type Clock, datagramBytesMax, type Datagrams, type Identity } from '../../../src/base/ports.ts';
import { type OpenHarness, type TestWorld, expectSuccess, suiteOptions, utf8Text, utf8 } from './harness.ts';

export type DatagramsNode = { readonly self: Identity; readonly datagrams: Datagrams; readonly clock: Clock };
export type DatagramsHarness = TestWorld & {
  /** A new member of one and the same cluster; all can reach each other. */
  join(name: string): Promise<DatagramsNode>;
};

const repeatMs = 50;
const repeatsMax = 100;

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

/** Repeats until the receiver has heard what satisfies `wanted`. */
async function sendUntil(
  world: TestWorld,
  from: DatagramsNode,
  send: () => void,
  wanted: () => boolean,
): Promise<void> {
  for (let repeats = 0; !wanted(); repeats++) {
    assert.ok(repeats < repeatsMax, 'no datagram arrives');
    send();
    await pause(world, from, repeatMs);
  }
}

function collect({ datagrams }: DatagramsNode): { from: Identity; body: string }[] {
  const heard: { from: Identity; body: string }[] = [];
  datagrams.receive((from, body) => heard.push({ from, body: utf8Text(body) ?? '' }));
  return heard;
}

function describeContents(open: OpenHarness<DatagramsHarness>): void {
  it('delivers the bytes together with the identity of the sender', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const heard = collect(b);
    await sendUntil(
      harness,
      a,
      () => a.datagrams.send(b.self, utf8.encode('hello')),
      () => heard.length > 0,
    );
    assert.equal(heard[0]?.body, 'hello');
    assert.deepEqual(heard[0]?.from, a.self);
  });

  it('works in both directions at the same time', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const [heardByA, heardByB] = [collect(a), collect(b)];
    const send = (): void => {
      a.datagrams.send(b.self, utf8.encode('to b'));
      b.datagrams.send(a.self, utf8.encode('to a'));
    };
    await sendUntil(harness, a, send, () => heardByA.length > 0 && heardByB.length > 0);
    assert.equal(heardByA[0]?.body, 'to a');
    assert.equal(heardByB[0]?.body, 'to b');
  });

  it('carries nothing at all, and as much as is allowed, but not more', async (t) => {
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
    const heard = collect(b);
    const send = (): void => {
      const buffer = utf8.encode('first');
      a.datagrams.send(b.self, buffer);
      buffer.fill(0);
    };
    await sendUntil(harness, a, send, () => heard.length > 0);
    assert.ok(heard.every(({ body }) => body === 'first'));
  });
}

function describeAddressing(open: OpenHarness<DatagramsHarness>): void {
  it('delivers nothing that is meant for another node at the same address', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const heard = collect(b);
    const stranger = nodeIdFrom(new Uint8Array(16).fill(9));
    const send = (): void => {
      a.datagrams.send({ ...b.self, id: stranger }, utf8.encode('not for b'));
      a.datagrams.send(b.self, utf8.encode('for b'));
    };
    await sendUntil(harness, a, send, () => heard.length >= 3);
    assert.ok(heard.every(({ body }) => body === 'for b'));
  });

  it('says nothing about an address where nobody listens', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    await expectSuccess<void>(harness, (done) => b.datagrams.close(done));
    a.datagrams.send(b.self, utf8.encode('anybody?'));
    await pause(harness, a, repeatMs);
  });
}

function describeClose(open: OpenHarness<DatagramsHarness>): void {
  it('delivers nothing after close, and sending then is harmless', async (t) => {
    const harness = await open(t);
    const [a, b] = [await harness.join('a'), await harness.join('b')];
    const heard = collect(b);
    await sendUntil(
      harness,
      a,
      () => a.datagrams.send(b.self, utf8.encode('one')),
      () => heard.length > 0,
    );
    await expectSuccess<void>(harness, (done) => b.datagrams.close(done));
    const before = heard.length;
    a.datagrams.send(b.self, utf8.encode('two'));
    b.datagrams.send(a.self, utf8.encode('three'));
    await pause(harness, a, repeatMs);
    assert.equal(heard.length, before);
  });
}
