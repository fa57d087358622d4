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

/** Two ends without a socket: what one takes as a frame is fed to the other by the test. */
function end(flush: () => void = () => {}, service: StreamService = echo, arriving = arrivingBytes()): Mux {
  const limits = defaultTransportLimits;
  const context = {
    ...{ limits, counters: new TransportCounters(), log: () => {}, admit: () => undefined, announced: () => {} },
    compression: new Compression(limits),
    reassembly: arriving,
    bucket: () => new TokenBucket(1e6, 1e6, 0),
    service: () => service,
  };
  return new Mux(identity('peer'), context, { wake: () => {}, flush, broken: assert.fail, goodbye: () => {} });
}

function arrivingBytes(): ByteBudget {
  return new ByteBudget(defaultTransportLimits.reassemblyTotalBytesMax);
}

function carry(from: Mux, to: Mux): number {
  const frame = from.takeFrame()?.slice();
  assert.ok(frame !== undefined);
  to.receive(frame, 0);
  return countSegments(frame);
}

/** Keeps `count` requests under way for ever: each reply leads to the next request. */
function keepAsking(mux: Mux, count: number): void {
  const next = (): void => void mux.request(body, 0, 1_000, next);
  for (let i = 0; i < count; i++) next();
}

describe('multiplexer', () => {
  it('sends half of the next requests early when the peer has nothing left to do', () => {
    const left: number[] = [];
    const server = end();
    const client: Mux = end(() => left.push(countSegments(client.takeFrame() ?? body)));
    keepAsking(client, 64);
    assert.equal(carry(client, server), 64);
    assert.equal(carry(server, client), 64);
    assert.deepEqual(left, [32]);
    assert.equal(carry(client, server), 32);
  });

  it('does so as well when the next requests come only after the read, as from those who wait for promises', () => {
    const left: number[] = [];
    const server = end();
    const client: Mux = end(() => left.push(countSegments(client.takeFrame() ?? body)));
    const later: (() => void)[] = [];
    const ask = (): void => void client.request(body, 0, 1_000, () => later.push(ask));
    for (let i = 0; i < 64; i++) ask();
    carry(client, server);
    carry(server, client);
    assert.deepEqual(left, []);
    for (const next of later.splice(0)) next();
    assert.deepEqual(left, [32]);
    assert.equal(carry(client, server), 32);
  });

  it('never serves a request that was given up while it was being inflated, and lets its place be used again', async () => {
    const served: number[] = [];
    const arriving = arrivingBytes();
    // Whoever is served keeps its place.
    const service: StreamService = { ...echo, request: (_from, { length }) => void served.push(length) };
    const server = end(undefined, service, arriving);
    const client = end();
    // Compressed it fits into one frame, and not so well that it looks like a bomb.
    const large = new Uint8Array(2 * defaultTransportLimits.compressFromBytes);
    large.set(randomBytes(10_000));
    const id = client.request(large, 0, 1_000, () => {}) ?? 0;
    while (client.queue.empty) await turn();
    carry(client, server);
    assert.notEqual(arriving.used, 0, 'it has arrived and is being inflated');
    client.abandon(id, failure('CANCELLED'));
    client.request(body, 0, 1_000, () => {});
    carry(client, server);
    while (arriving.used > 0) await turn();
    assert.deepEqual(served, [body.length]);
  });

  it('does not when the peer still has work, or when there is little of it', () => {
    let flushes = 0;
    const server = end();
    const client = end(() => (flushes += 1));
    keepAsking(client, 40);
    const first = client.takeFrame()?.slice() ?? body;
    keepAsking(client, 40);
    server.receive(first, 0);
    // 40 of 80 are answered, the others have left in a frame of their own.
    client.takeFrame();
    carry(server, client);
    assert.equal(flushes, 0);
    const quiet = end(() => (flushes += 1));
    keepAsking(quiet, 8);
    carry(quiet, server);
    carry(server, quiet);
    assert.equal(flushes, 0);
  });
});
