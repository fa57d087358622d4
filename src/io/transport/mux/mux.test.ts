import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { failure } from '../../../base/errors.ts';
import type { StreamService } from '../../../base/ports.ts';
import { Compression } from './compression.ts';
import { TransportCounters } from '../shared/transport-counters.ts';
import { echo, identity } from '../../../../test/support/io/transport-nodes.ts';
import { defaultTransportLimits } from '../shared/transport-limits.ts';
import { Mux } from './mux.ts';
import { ByteBudget } from './reassembly.ts';
import { countSegments } from './segment.ts';
import { TokenBucket } from '../shared/token-bucket.ts';

const body = Uint8Array.of(1, 2, 3);

/** One end of a connection without a socket: the test passes the frames of one end to the other. */
function end(flush: () => void = () => {}, service: StreamService = echo, reassembly = reassemblyBudget()): Mux {
  const limits = defaultTransportLimits;
  const context = {
    ...{
      limits,
      counters: new TransportCounters(),
      log: () => {},
      admit: () => undefined,
      onSessionAnnouncement: () => {},
    },
    compression: new Compression(limits),
    reassembly,
    bucket: () => new TokenBucket(1e6, 1e6, 0),
    service: () => service,
  };
  return new Mux(identity('peer'), context, { wake: () => {}, flush, onProtocolError: assert.fail, goodbye: () => {} });
}

function reassemblyBudget(): ByteBudget {
  return new ByteBudget(defaultTransportLimits.reassemblyTotalBytesMax);
}

function carry(from: Mux, to: Mux): number {
  const frame = from.takeFrame()?.slice();
  assert.ok(frame !== undefined);
  to.receive(frame, 0);
  return countSegments(frame);
}

/** Keeps `count` requests in flight: each reply starts the next request. */
function keepInFlight(mux: Mux, count: number): void {
  const next = (): void => void mux.request(body, 0, 1_000, next);
  for (let i = 0; i < count; i++) next();
}

describe('a multiplexer', () => {
  it('flushes half of the next requests early when the peer has no work left', () => {
    const flushed: number[] = [];
    const server = end();
    const client: Mux = end(() => flushed.push(countSegments(client.takeFrame() ?? body)));
    keepInFlight(client, 64);
    assert.equal(carry(client, server), 64);
    assert.equal(carry(server, client), 64);
    assert.deepEqual(flushed, [32]);
    assert.equal(carry(client, server), 32);
  });

  it('flushes early also when the next requests come after the read, as from callers with promises', () => {
    const flushed: number[] = [];
    const server = end();
    const client: Mux = end(() => flushed.push(countSegments(client.takeFrame() ?? body)));
    const later: (() => void)[] = [];
    const request = (): void => void client.request(body, 0, 1_000, () => later.push(request));
    for (let i = 0; i < 64; i++) request();
    carry(client, server);
    carry(server, client);
    assert.deepEqual(flushed, []);
    for (const next of later.splice(0)) next();
    assert.deepEqual(flushed, [32]);
    assert.equal(carry(client, server), 32);
  });

  it('does not serve a request that was cancelled during decompression, and frees its slot', async () => {
    const served: number[] = [];
    const budget = reassemblyBudget();
    // Never replies, so a served request keeps its slot.
    const service: StreamService = { ...echo, request: (_from, { length }) => void served.push(length) };
    const server = end(undefined, service, budget);
    const client = end();
    // Compressed it fits into one frame, with a ratio below that of a bomb.
    const large = new Uint8Array(2 * defaultTransportLimits.compressFromBytes);
    large.set(randomBytes(10_000));
    const id = client.request(large, 0, 1_000, () => {}) ?? 0;
    while (client.queue.empty) await turn();
    carry(client, server);
    assert.notEqual(budget.used, 0, 'the request is being decompressed');
    client.abandon(id, failure('CANCELLED'));
    client.request(body, 0, 1_000, () => {});
    carry(client, server);
    while (budget.used > 0) await turn();
    assert.deepEqual(served, [body.length]);
  });

  it('does not flush early when the peer still has work or few requests are in flight', () => {
    let flushes = 0;
    const server = end();
    const client = end(() => (flushes += 1));
    keepInFlight(client, 40);
    const first = client.takeFrame()?.slice() ?? body;
    keepInFlight(client, 40);
    server.receive(first, 0);
    // 40 of 80 requests get a reply; the others are in a frame of their own.
    client.takeFrame();
    carry(server, client);
    assert.equal(flushes, 0);
    const quiet = end(() => (flushes += 1));
    keepInFlight(quiet, 8);
    carry(quiet, server);
    carry(server, quiet);
    assert.equal(flushes, 0);
  });
});
