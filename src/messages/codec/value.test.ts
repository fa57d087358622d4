import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';

import { isRemusterError } from '../../base/errors.ts';
import { rejectionReason } from './decode-error.ts';
import { decodeValue, encodeDetachedValue, encodeValue, valueBytesMax, valueDepthMax } from './value.ts';

const anyText = fc.string({ unit: 'binary', maxLength: 80 }).filter((text) => text.isWellFormed());

const { anyValue } = fc.letrec<{ anyValue: unknown }>((tie) => ({
  anyValue: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(
      undefined,
      null,
      true,
      false,
      -0,
      0,
      NaN,
      Infinity,
      -Infinity,
      127,
      128,
      -1,
      2 ** 53 - 1,
      -(2 ** 53 - 1),
      2 ** 53,
    ),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double(),
    anyText,
    fc.bigInt(),
    fc.uint8Array({ maxLength: 200 }),
    fc.date({ noInvalidDate: false }),
    fc.array(tie('anyValue'), { maxLength: 8 }),
    fc.dictionary(fc.oneof(anyText, fc.constantFrom('__proto__', 'constructor', '7')), tie('anyValue'), {
      maxKeys: 8,
      noNullPrototype: true,
    }),
  ),
}));

function hexOf(value: unknown): string {
  return Buffer.from(encodeValue(value)).toString('hex');
}

function refusedWith(bytes: Uint8Array): string | undefined {
  try {
    decodeValue(bytes);
    return undefined;
  } catch (error) {
    return rejectionReason(error);
  }
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}

describe('an encoded value', () => {
  test('survives the round trip', () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        const bytes = encodeValue(value);
        assert.deepStrictEqual(decodeValue(bytes), value);
        // The transport hands over a Buffer, a view of a larger one.
        assert.deepStrictEqual(decodeValue(Buffer.concat([Buffer.of(9), bytes]).subarray(1)), value);
      }),
      { numRuns: 1_000 },
    );
  });

  test('has the recorded bytes', () => {
    assert.equal(hexOf(undefined), '0100');
    assert.equal(hexOf([null, false, true]), '010c03010203');
    assert.equal(hexOf([0, 127, 128, -1, -129]), '010c0580ff0480010500058001');
    assert.equal(hexOf(-0), '01068000000000000000');
    assert.equal(hexOf('a\u20ac'), '01070461e282ac');
    assert.equal(hexOf([0n, 255n, -256n]), '010c030a000a01ff0b020100');
    assert.equal(hexOf(new Uint8Array([1, 2])), '0108020102');
    assert.equal(hexOf(new Date(1)), '01093ff0000000000000');
    assert.equal(hexOf({ a: {} }), '010d0101610d00');
  });

  test('treats buffers, subclasses of arrays and objects of other realms as plain ones', () => {
    assert.deepStrictEqual(decodeValue(encodeValue(Buffer.from('ab'))), new Uint8Array([97, 98]));
    assert.deepStrictEqual(decodeValue(encodeValue(runInNewContext('({ a: [1] })'))), { a: [1] });
    assert.deepStrictEqual(decodeValue(encodeValue(Object.assign(Object.create(null), { a: 1 }))), { a: 1 });
    // oxlint-disable-next-line no-sparse-arrays
    assert.deepStrictEqual(decodeValue(encodeValue([, 1])), [undefined, 1]);
  });

  test('is an ordinary object even with a key __proto__', () => {
    const hostile = JSON.parse('{"__proto__": {"isAdmin": true}}') as object;
    const back = decodeValue(encodeValue(hostile)) as Record<string, unknown>;
    assert.equal(Object.getPrototypeOf(back), Object.prototype);
    assert.equal(back['isAdmin'], undefined);
    assert.deepEqual(Object.keys(back), ['__proto__']);
  });

  test('shares no bytes with other values', () => {
    const bytes = encodeValue(new Uint8Array([1, 2, 3]));
    const back = decodeValue(bytes) as Uint8Array;
    bytes.fill(0);
    assert.deepStrictEqual(back, new Uint8Array([1, 2, 3]));
  });

  test('may encode another value in a getter', () => {
    const outer = {
      get inner(): Uint8Array {
        return encodeValue({ deep: 'x'.repeat(100) });
      },
    };
    const { inner } = decodeValue(encodeValue(outer)) as { inner: Uint8Array };
    assert.deepStrictEqual(decodeValue(inner), { deep: 'x'.repeat(100) });
  });

  test('may be large', () => {
    const value = {
      text: '\u20ac'.repeat(1_000_000),
      bytes: new Uint8Array(3_000_000).fill(7),
      list: Array.from({ length: 100_000 }, (_, i) => i),
    };
    assert.deepStrictEqual(decodeValue(encodeValue(value)), value);
  });
});

describe('encodeValue rejects', () => {
  class Point {
    readonly x = 1;
  }
  const cases: readonly (readonly [string, unknown, string])[] = [
    ['a function', { a: [1, { 'b c': () => 1 }] }, 'value["a"][1]["b c"] is a function'],
    ['a symbol', [Symbol('s')], 'value[0] is a symbol'],
    ['an instance', { p: new Point() }, 'value["p"] is an instance'],
    ['a map', new Map(), 'value is an instance'],
    ['another typed array', [new Uint16Array(1)], 'value[0] is an instance'],
    ['a lone surrogate', ['\ud800'], 'value[0] is text with a lone surrogate'],
    ['a lone surrogate in a key', { '\ud800': 1 }, 'is text with a lone surrogate'],
  ];
  for (const [name, value, message] of cases) {
    test(`${name}, with its path`, () => {
      assert.throws(
        () => encodeValue(value),
        (error) => isRemusterError(error, 'BAD_ARGUMENT') && error.message.includes(message),
      );
      assert.deepStrictEqual(decodeValue(encodeValue('still works')), 'still works');
    });
  }

  test('a value that is nested too deeply or contains itself', () => {
    const own: unknown[] = [];
    own.push(own);
    for (const value of [own, nested(valueDepthMax + 1)]) {
      assert.throws(
        () => encodeValue(value),
        (error) => isRemusterError(error, 'BAD_ARGUMENT') && error.message.includes('nested'),
      );
    }
    assert.deepStrictEqual(decodeValue(encodeValue(nested(valueDepthMax))), nested(valueDepthMax));
  });

  test('a value that is too large', () => {
    const tooLarge = [
      'x'.repeat(valueBytesMax),
      new Uint8Array(valueBytesMax),
      Array.from({ length: 11 }, () => new Uint8Array(1_000_000)),
      1n << BigInt(65_536 * 8),
      Array.from({ length: 1_000_001 }, () => ({})),
    ];
    for (const value of tooLarge)
      assert.throws(
        () => encodeValue(value),
        (error) => isRemusterError(error, 'TOO_LARGE'),
      );
    assert.throws(
      () => encodeValue([1, 2, 3], 4),
      (error) => isRemusterError(error, 'TOO_LARGE'),
    );
    assert.equal(encodeValue([1, 2], 5).length, 5);
  });
});

describe('decoding untrusted bytes', () => {
  const cases: readonly (readonly [string, readonly number[], string])[] = [
    ['nothing', [], 'header'],
    ['another version', [2, 0], 'version'],
    ['a version alone', [1], 'truncated'],
    ['an unknown tag', [1, 14], 'wireType'],
    ['something behind the value', [1, 0, 0], 'fieldLength'],
    ['a small number in a long spelling', [1, 4, 5], 'varint'],
    ['a whole number as a float', [1, 6, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0], 'varint'],
    ['a number below the safe ones', [1, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], 'range'],
    ['text that is longer than the rest', [1, 7, 5, 97], 'fieldLength'],
    ['text that is not UTF-8', [1, 7, 1, 0xff], 'utf8'],
    ['a list of more items than bytes', [1, 12, 3, 0, 0], 'fieldLength'],
    ['a huge count', [1, 13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], 'fieldLength'],
    ['a key twice', [1, 13, 2, 1, 97, 0, 1, 97, 0], 'duplicateKey'],
    ['a large number with needless bytes', [1, 10, 2, 0, 1], 'varint'],
    ['a negative large zero', [1, 11, 0], 'range'],
    ['a huge large number', [1, 10, 0x81, 0x80, 0x04, ...new Uint8Array(65_537).fill(1)], 'fieldBytes'],
    ['a date of no calendar', [1, 9, 0x7f, 0xe0, 0, 0, 0, 0, 0, 0], 'range'],
    ['a float cut short', [1, 6, 0], 'truncated'],
    ['too many levels', [1, ...Array.from({ length: valueDepthMax + 1 }, () => [12, 1]).flat(), 0], 'itemCount'],
  ];
  for (const [name, bytes, reason] of cases) {
    test(`rejects ${name}`, () => assert.equal(refusedWith(Uint8Array.from(bytes)), reason));
  }

  test('rejects bytes that would take much more memory', () => {
    const bytes = new Uint8Array(2_000_005 + 2);
    bytes.set([1, 12, 0xc1, 0x84, 0x3d]);
    for (let i = 5; i < bytes.length; i += 2) bytes.set([13, 0], i);
    assert.equal(refusedWith(bytes), 'itemCount');
    assert.equal(refusedWith(new Uint8Array(valueBytesMax + 1).fill(1)), 'messageBytes');
  });

  test('ends in a value or a decode error', () => {
    const mutation = fc.tuple(fc.nat(), fc.nat(255), fc.constantFrom('set', 'cut', 'add'));
    fc.assert(
      fc.property(anyValue, fc.array(mutation, { minLength: 1, maxLength: 4 }), (value, mutations) => {
        let bytes = [...encodeValue(value)];
        for (const [at, byte, how] of mutations) {
          const place = at % bytes.length;
          if (how === 'set') bytes[place] = byte;
          else if (how === 'cut') bytes = bytes.slice(0, place + 1);
          else bytes.splice(place, 0, byte);
        }
        outcomeOf(Uint8Array.from(bytes));
      }),
      { numRuns: 2_000 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (noise) => outcomeOf(Uint8Array.of(1, ...noise))),
      {
        numRuns: 2_000,
      },
    );
  });

  /** Accepted bytes are those that would be written: one encoding per value. Only integer-like keys may change order. */
  function outcomeOf(bytes: Uint8Array): void {
    let value: unknown;
    try {
      value = decodeValue(bytes);
    } catch (error) {
      assert.ok(rejectionReason(error) !== undefined, String(error));
      return;
    }
    assert.equal(encodeValue(value).length, bytes.length);
  }
});

describe('a detached value', () => {
  test('is encoded like any other, and retains no other bytes', () => {
    for (const value of [undefined, null, 7, 'text', new Uint8Array(100), { list: [1, 'two'] }, 'x'.repeat(20_000)]) {
      const own = encodeDetachedValue(value);
      assert.deepEqual(own, new Uint8Array(encodeValue(value)));
      assert.equal(own.buffer.byteLength, own.length);
    }
  });
});
