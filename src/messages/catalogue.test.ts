import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import { messageArbitrary } from '../../test/support/fuzz/arbitraries.ts';
import { allFieldTypes } from '../../test/support/fuzz/all-field-types.ts';
import { isRemusterError } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import { datagramBytesMax } from '../base/ports.ts';
import { type Message, catalogue, decodeMessage, encodeMessage, retiredTags } from './catalogue.ts';
import { createCodec } from './codec/codec.ts';
import type { NodeEntry } from './node-entry.ts';

const entry: NodeEntry = {
  id: '000102030405060708090a0b0c0d0e0f' as NodeId,
  name: 'n1',
  host: '10.0.0.1',
  port: 8_000,
  generation: 3,
  roles: ['manager', 'worker'],
  dc: 'east',
  watchedBy: undefined,
};

const longest: NodeEntry = {
  id: 'f'.repeat(32) as NodeId,
  name: 'n'.repeat(63),
  host: 'h'.repeat(255),
  port: 65_535,
  generation: 2 ** 32 - 1,
  roles: ['gate', 'manager', 'worker', 'client'],
  dc: 'd'.repeat(63),
  watchedBy: 'e'.repeat(32) as NodeId,
};

function joinOf(one: NodeEntry, incarnation: number) {
  const { id, generation } = one;
  return { kind: 'join', id, generation, incarnation, by: id, refused: false, entry: one } as const;
}

describe('the catalogue', () => {
  test('has unique kinds, tags and field numbers, and fits its carriers', () => {
    assert.equal(new Set(catalogue.map(({ kind }) => kind)).size, catalogue.length);
    assert.equal(new Set(catalogue.map(({ tag }) => tag)).size, catalogue.length);
    for (const { kind, carrier, bytesMax, from, codec, doc } of catalogue) {
      assert.equal(new Set(codec.schemas.map(({ number }) => number)).size, codec.schemas.length, kind);
      if (carrier !== 'stream') assert.ok(bytesMax <= datagramBytesMax, kind);
      assert.ok(from.length > 0 && doc.length > 0, kind);
    }
  });

  test('never reuses a retired tag', () => {
    assert.deepEqual(
      catalogue.filter(({ tag }) => retiredTags.includes(tag)),
      [],
    );
  });

  test('writes the recorded bytes', () => {
    const expected = [
      ['03', '0025'],
      ['04', '07'],
      ['0e', '5c', '5b'],
      ['04', '00', '0a', '10', entry.id, '0c', '03', '10', '07', '16', '10', entry.id, '18', '00', '1e', '2d'],
      ['06', '10', entry.id, '0a', '02', '6e31', '0e', '08', '31302e302e302e31'],
      ['10', 'c03e', '14', '03', '18', '06', '1e', '04', '65617374'],
    ];
    const encoded = encodeMessage({ kind: 'gossip', incarnation: 7, claims: [joinOf(entry, 7)] });
    assert.equal(Buffer.from(encoded).toString('hex'), expected.flat().join(''));
  });
});

describe('every declared message', () => {
  const codec = createCodec([...catalogue, allFieldTypes] as const);
  for (const declaration of [...catalogue, allFieldTypes]) {
    test(`${declaration.kind} survives encoding and decoding`, () => {
      fc.assert(
        fc.property(messageArbitrary(declaration), (value) => {
          const encoded = codec.encode(value as Parameters<typeof codec.encode>[0]);
          assert.ok(encoded.length <= declaration.bytesMax);
          assert.deepEqual(codec.decode(encoded), value);
          // The transport hands over a Buffer, a view of a larger one.
          assert.deepEqual(codec.decode(Buffer.concat([Buffer.of(9), encoded]).subarray(1)), value);
        }),
        { numRuns: 100 },
      );
    });
  }

  test('decodes to a plain object with declared properties only', () => {
    const message = decodeMessage(encodeMessage({ kind: 'leave', incarnation: 1, reason: '__proto__' }));
    assert.equal(Object.getPrototypeOf(message), Object.prototype);
    assert.deepEqual(Object.keys(message), ['kind', 'incarnation', 'reason']);
    assert.ok(message.kind === 'leave' && message.reason === '__proto__');
  });
});

describe('the size limits', () => {
  test('leave room for the longest lists', () => {
    const member = {
      entry: longest,
      state: 'left',
      incarnation: 2 ** 32 - 1,
      health: 255,
      silentMs: 2 ** 53 - 1,
      stuck: true,
      lagMs: 2 ** 32 - 1,
      roundTripUs: 2 ** 32 - 1,
      coordinate: {
        pointUs: Array.from({ length: 8 }, () => -(2 ** 31)),
        heightUs: 2 ** 32 - 1,
        errorPermille: 65_535,
      },
    } as const;
    const fullest: readonly Message[] = [
      {
        ...{ kind: 'syncView', viewHash: 2 ** 32 - 1, reply: 'nothing' },
        claims: Array.from({ length: 14_000 }, () => joinOf(longest, 2 ** 32 - 1)),
      },
      { kind: 'listMembersReply', members: Array.from({ length: 10_000 }, () => member) },
      { kind: 'echo', payload: new Uint8Array(10_000_000) },
      { kind: 'leave', incarnation: 1, reason: '\u20ac'.repeat(66) },
    ];
    for (const message of fullest) assert.deepEqual(decodeMessage(encodeMessage(message)), message);
  });

  test('admit a full ack in a datagram, and reject larger ones', () => {
    const ack = (one: NodeEntry, claims: number): Message => ({
      ...{ kind: 'ack', incarnation: 1, seq: 2 ** 32 - 1, health: 8, stuck: true, viewHash: 2 ** 32 - 1 },
      claims: Array.from({ length: claims }, () => joinOf(one, 2 ** 32 - 1)),
      coordinate: { pointUs: [-1_000_000, 1_000_000, 1, 1], heightUs: 1_000_000, errorPermille: 1_500 },
      stateVersion: 2 ** 32 - 1,
      state: [{ role: 'worker', state: new Uint8Array(512) }],
      lagMs: 2 ** 32 - 1,
    });
    const ordinary = {
      ...entry,
      name: 'worker-0123456789',
      host: 'worker-17.internal.example.com',
      dc: 'europe-west-1',
    };
    assert.ok(encodeMessage(ack(ordinary, 3)).length <= datagramBytesMax);
    assert.throws(
      () => encodeMessage(ack(longest, 2)),
      (error) => isRemusterError(error, 'TOO_LARGE'),
    );
  });
});
