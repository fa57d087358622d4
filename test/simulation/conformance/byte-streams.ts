/** Conformance of Streams: byte streams keep order and credit, end in both directions, and abort. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Outcome } from '../../../src/base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../../src/base/ports.ts';
import { type OpenHarness, utf8Text, utf8 } from './harness.ts';
import { openStreamsPair, serviceWith, type StreamsHarness } from './streams.ts';

const partBytes = 10_000;

/** Sends a sequence of bytes as fast as credit allows, and checks what it receives. */
class StreamPeer {
  readonly #ended = Promise.withResolvers<Outcome<void>>();
  readonly #total: number;
  stream: ByteStream | undefined;
  refusals = 0;
  endings = 0;
  received = 0;
  inOrder = true;
  #sent = 0;

  constructor(total: number) {
    this.#total = total;
  }

  get ended(): Promise<Outcome<void>> {
    return this.#ended.promise;
  }

  send(): void {
    while (this.#sent < this.#total) {
      const size = Math.min(partBytes, this.#total - this.#sent);
      const part = Uint8Array.from({ length: size }, (_, i) => (this.#sent + i) % 251);
      if (this.stream?.write(part) !== true) {
        this.refusals += 1;
        return;
      }
      // The stream has its own copy.
      part.fill(255);
      this.#sent += size;
    }
    this.stream?.end();
  }

  chunk(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (byte !== this.received % 251) this.inOrder = false;
      this.received += 1;
    }
  }

  writable(): void {
    this.send();
  }

  end(outcome: Outcome<void>): void {
    this.endings += 1;
    this.#ended.resolve(outcome);
  }
}

function eventsOf(peer: StreamPeer): ByteStreamEvents {
  return {
    chunk: (bytes) => peer.chunk(bytes),
    writable: () => peer.writable(),
    ended: (outcome) => peer.end(outcome),
  };
}

export function describeByteStreams(open: OpenHarness<StreamsHarness>): void {
  it('carries bytes in both directions, in order, no faster than credit allows, and ends both', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const there = new StreamPeer(3_000_000);
    const here = new StreamPeer(2_000_000);
    b.streams.serve(
      serviceWith({
        open: (from, opening, stream) => {
          assert.equal(from.name, a.self.name);
          assert.equal(utf8Text(opening), 'open');
          there.stream = stream;
          a.clock.schedule(1, () => there.send());
          return eventsOf(there);
        },
      }),
    );
    here.stream = a.streams.open(b.self, utf8.encode('open'), eventsOf(here));
    here.send();
    const outcomes = await harness.settle(Promise.all([here.ended, there.ended]));
    assert.deepEqual(
      outcomes.map(({ ok }) => ok),
      [true, true],
    );
    assert.deepEqual([here.received, there.received], [3_000_000, 2_000_000]);
    assert.ok(here.inOrder && there.inOrder, 'bytes arrived out of order');
    assert.ok(here.refusals > 0 && there.refusals > 0, 'there was no flow control');
    assert.deepEqual([here.endings, there.endings], [1, 1]);
    assert.equal(here.stream.write(utf8.encode('too late')), false);
  });

  it('ends both sides with the reason when one side aborts', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const there = new StreamPeer(0);
    const opened = Promise.withResolvers<ByteStream>();
    b.streams.serve(
      serviceWith({
        open: (_from, _opening, stream) => {
          there.stream = stream;
          opened.resolve(stream);
          return eventsOf(there);
        },
      }),
    );
    const here = new StreamPeer(0);
    here.stream = a.streams.open(b.self, utf8.encode('x'), eventsOf(here));
    const stream = await harness.settle(opened.promise);
    stream.abort('no more of this');
    stream.abort('twice');
    for (const outcome of await harness.settle(Promise.all([here.ended, there.ended]))) {
      assert.ok(!outcome.ok);
      assert.equal(outcome.error.code, 'CANCELLED');
      assert.equal(outcome.error.message, 'no more of this');
    }
    assert.deepEqual([here.endings, there.endings], [1, 1]);
  });

  it('ends with an error when no node listens, or the peer crashes', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    const opened = Promise.withResolvers<void>();
    b.streams.serve(
      serviceWith({
        open: () => {
          opened.resolve();
          return eventsOf(new StreamPeer(0));
        },
      }),
    );
    const broken = new StreamPeer(0);
    broken.stream = a.streams.open(b.self, utf8.encode('x'), eventsOf(broken));
    await harness.settle(opened.promise);
    await b.kill();
    assert.equal((await harness.settle(broken.ended)).ok, false);
    const refused = new StreamPeer(0);
    refused.stream = a.streams.open(b.self, utf8.encode('x'), eventsOf(refused));
    assert.equal((await harness.settle(refused.ended)).ok, false);
  });

  it('aborts the stream, and only the stream, when a handler throws', async (t) => {
    const { harness, a, b } = await openStreamsPair(open, t);
    b.streams.serve(
      serviceWith({
        open: () => {
          throw new Error('a bug');
        },
      }),
    );
    const here = new StreamPeer(0);
    here.stream = a.streams.open(b.self, utf8.encode('x'), eventsOf(here));
    assert.equal((await harness.settle(here.ended)).ok, false);
  });
}
