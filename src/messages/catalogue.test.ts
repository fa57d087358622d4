import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import { anyMessage } from '../../test/fuzz/arbitraries.ts';
import { everyKind } from '../../test/fuzz/every-kind.ts';
import { isRemusterError } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import { datagramBytesMax } from '../base/ports.ts';
import { type Message, catalogue, decodeMessage, encodeMessage } from './catalogue.ts';
import { codecOf } from './codec.ts';
import type { NodeEntry } from './node-entry.ts';

const entry: NodeEntry = {
  id: '000102030405060708090a0b0c0d0e0f' as NodeId,
  name: 'n1',
  host: '10.0.0.1',
  port: 8_000,
  generation: 3,
  roles: ['manager', 'worker'],
  dc: 'east',
};

const longest: NodeEntry = {
  id: 'f'.repeat(32) as NodeId,
  name: 'n'.repeat(63),
  host: 'h'.repeat(255),
  port: 65_535,
  generation: 2 ** 32 - 1,
  roles: ['gate', 'manager', 'worker', 'client'],
  dc: 'd'.repeat(63),
};

describe('the catalogue', () => {
  test('has unique kinds, tags and field numbers, and fits its carriers', () => {
    assert.equal(new Set(catalogue.map(({ kind }) => kind)).size, catalogue.length);
    assert.equal(new Set(catalogue.map(({ tag }) => tag)).size, catalogue.length);
    for (const { kind, carrier, bytesMax, from, codec, doc } of catalogue) {
      assert.equal(new Set(codec.shapes.map(({ number }) => number)).size, codec.shapes.length, kind);
      if (carrier !== 'stream') assert.ok(bytesMax <= datagramBytesMax, kind);
      assert.ok(from.length > 0 && doc.length > 0, kind);
    }
  });

  test('writes the bytes that it always wrote', () => {
    const expected = [
      ['01', '0001'],
      ['05', '00000000499602d2'],
      ['0a', '2e', '2d'],
      ['06', '10', entry.id, '0a', '02', '6e31', '0e', '08', '31302e302e302e31'],
      ['10', 'c03e', '14', '03', '18', '06', '1e', '04', '65617374'],
    ];
    const encoded = encodeMessage({ kind: 'hello', messageId: 1_234_567_890n, known: [entry] });
    assert.equal(Buffer.from(encoded).toString('hex'), expected.flat().join(''));
  });
});

describe('every declared message', () => {
  const codec = codecOf([...catalogue, everyKind] as const);
  for (const declaration of [...catalogue, everyKind]) {
    test(`${declaration.kind} survives encoding and decoding`, () => {
      fc.assert(
        fc.property(anyMessage(declaration), (value) => {
          const encoded = codec.encode(value as Parameters<typeof codec.encode>[0]);
          assert.ok(encoded.length <= declaration.bytesMax);
          assert.deepEqual(codec.decode(encoded), value);
          // What the transport hands over is a Buffer, somewhere in a larger one.
          assert.deepEqual(codec.decode(Buffer.concat([Buffer.of(9), encoded]).subarray(1)), value);
        }),
        { numRuns: 100 },
      );
    });
  }

  test('is a plain object with declared properties only', () => {
    const message = decodeMessage(encodeMessage({ kind: 'goodbye', reason: '__proto__' }));
    assert.equal(Object.getPrototypeOf(message), Object.prototype);
    assert.deepEqual(Object.keys(message), ['kind', 'reason']);
    assert.ok(message.kind === 'goodbye' && message.reason === '__proto__');
  });
});

describe('the size limits', () => {
  test('leave room for the fullest lists', () => {
    const member = {
      entry: longest,
      state: 'left',
      incarnation: 2 ** 32 - 1,
      health: 255,
      silentMs: 2 ** 53 - 1,
    } as const;
    const fullest: readonly Message[] = [
      { kind: 'introduce', self: longest, known: Array.from({ length: 1_000 }, () => longest) },
      { kind: 'memberList', members: Array.from({ length: 10_000 }, () => member) },
      { kind: 'echo', payload: new Uint8Array(10_000_000) },
      { kind: 'goodbye', reason: '\u20ac'.repeat(66) },
    ];
    for (const message of fullest) assert.deepEqual(decodeMessage(encodeMessage(message)), message);
  });

  test('of a datagram hold six entries with ordinary names, and refuse what no datagram can carry', () => {
    const hello = (one: NodeEntry): Message => ({
      kind: 'hello',
      messageId: 2n ** 64n - 1n,
      known: Array.from({ length: 6 }, () => one),
    });
    const ordinary = {
      ...entry,
      name: 'worker-0123456789',
      host: 'worker-17.internal.example.com',
      dc: 'europe-west-1',
    };
    assert.ok(encodeMessage(hello(ordinary)).length <= datagramBytesMax);
    assert.throws(
      () => encodeMessage(hello(longest)),
      (error) => isRemusterError(error, 'TOO_LARGE'),
    );
  });
});
