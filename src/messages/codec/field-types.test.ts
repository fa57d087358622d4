import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type ErrorCode, isRemusterError } from '../../base/errors.ts';
import { type NodeId, namePattern } from '../../base/ids.ts';
import type { Role } from '../../base/ports.ts';
import { list, map } from './compound.ts';
import type { FieldType } from './field-type.ts';
import { bool, f64, f64OrNotFinite, i32, enumOf, roles, u16, u32, u53, u64, u8 } from './numbers.ts';
import { WireReader } from './reader.ts';
import { type RejectionReason, rejectionReason } from './decode-error.ts';
import { bytes, name, nodeId, text, shortInternedText } from './strings.ts';
import { WireWriter } from './writer.ts';

function written<T>(kind: FieldType<T>, value: T): Uint8Array {
  const writer = new WireWriter();
  kind.write(writer, value, 'it');
  return writer.finish();
}

function read<T>(kind: FieldType<T>, input: Uint8Array): T {
  const reader = new WireReader(input, 0);
  const value = kind.read(reader, 'it');
  assert.equal(reader.position, input.length, 'bytes are left');
  return value;
}

function survives<T>(kind: FieldType<T>, ...values: readonly T[]): void {
  for (const value of values) assert.deepEqual(read(kind, written(kind, value)), value);
}

/** Values that the compiler would reject; untyped data reaches the codec nevertheless. */
function refusesToWrite(kind: FieldType<unknown>, code: ErrorCode, ...values: readonly unknown[]): void {
  for (const value of values) {
    assert.throws(
      () => written(kind, value),
      (error) => isRemusterError(error, code),
      String(value),
    );
  }
}

function refusesToRead(
  kind: FieldType<unknown>,
  reason: RejectionReason,
  ...inputs: readonly (readonly number[])[]
): void {
  for (const input of inputs) {
    assert.throws(
      () => read(kind, Uint8Array.from(input)),
      (error) => rejectionReason(error) === reason,
      input.join(' '),
    );
  }
}

const notNumbers = [undefined, null, '1', 1n, NaN, Infinity, 1.5, -1, {}];

describe('integers', () => {
  test('survive at the bounds of their ranges and lengths', () => {
    survives(u8, 0, 1, 127, 128, 255);
    survives(u16, 0, 16_383, 16_384, 65_535);
    survives(u32, 0, 2 ** 21 - 1, 2 ** 21, 2 ** 28, 2 ** 31, 2 ** 32 - 1);
    survives(u53, 0, 2 ** 32, 2 ** 35 - 1, 2 ** 35, 2 ** 42, 2 ** 49, Number.MAX_SAFE_INTEGER);
    survives(i32, 0, -1, 1, -64, 63, 64, -(2 ** 31), 2 ** 31 - 1);
    survives(u64, 0n, 1n, 2n ** 53n + 1n, 2n ** 64n - 1n);
  });

  test('are rejected outside their ranges, both when encoding and decoding', () => {
    for (const [kind, beyond] of [
      [u8, 256],
      [u16, 65_536],
      [u32, 2 ** 32],
      [u53, 2 ** 53],
    ] as const) {
      refusesToWrite(kind, 'BAD_ARGUMENT', beyond, ...notNumbers);
    }
    refusesToWrite(i32, 'BAD_ARGUMENT', 2 ** 31, -(2 ** 31) - 1, 'x', NaN);
    refusesToWrite(u64, 'BAD_ARGUMENT', -1n, 2n ** 64n, 5, undefined);
    refusesToRead(u8, 'range', [0x80, 0x02]);
    refusesToRead(u16, 'range', [0x80, 0x80, 0x04]);
    refusesToRead(i32, 'range', [0x80, 0x80, 0x80, 0x80, 0x10]);
  });

  test('have one encoding only', () => {
    refusesToRead(u53, 'varint', [0x80, 0x00], [0x81, 0x80, 0x00]);
    refusesToRead(u53, 'varint', [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f]);
    refusesToRead(u53, 'varint', [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    refusesToRead(u53, 'truncated', [], [0x80], [0xff, 0xff]);
    refusesToRead(u64, 'truncated', [1, 2, 3, 4, 5, 6, 7]);
  });
});

describe('other numbers', () => {
  test('a float is finite unless declared otherwise', () => {
    survives(f64, 0, 1.5, -1e308, Number.MIN_VALUE);
    assert.ok(Object.is(read(f64, written(f64, -0)), -0));
    survives(f64OrNotFinite, NaN, Infinity, -Infinity);
    refusesToWrite(f64, 'BAD_ARGUMENT', NaN, Infinity, '1', undefined);
    refusesToRead(f64, 'notFinite', [0x7f, 0xf0, 0, 0, 0, 0, 0, 0], [0x7f, 0xf8, 0, 0, 0, 0, 0, 1]);
  });

  test('booleans, enums and roles reject unknown values', () => {
    const colour = enumOf('red', 'green');
    survives(bool, true, false);
    survives(colour, 'red', 'green');
    survives<readonly Role[]>(roles, [], ['gate'], ['manager', 'worker'], ['gate', 'manager', 'worker', 'client']);
    refusesToWrite(bool, 'BAD_ARGUMENT', 0, 1, 'true', undefined);
    refusesToWrite(colour, 'BAD_ARGUMENT', 'blue', '__proto__', 'constructor', 0, undefined);
    refusesToWrite(roles, 'BAD_ARGUMENT', 'gate', ['king'], undefined, [undefined]);
    refusesToRead(bool, 'range', [2]);
    refusesToRead(colour, 'enumeration', [2], [0xff, 0x01]);
    refusesToRead(roles, 'enumeration', [16], [0xff, 0x01]);
  });

  test('roles are a set: order and repetition do not matter', () => {
    assert.deepEqual(read(roles, written(roles, ['worker', 'gate', 'worker'])), ['gate', 'worker']);
  });
});

describe('text and names', () => {
  const hostile = ['', '__proto__', '\0', '\ufeffx', 'a\nb', '\u{10ffff}', '\u00e9'.repeat(50), 'x'.repeat(100)];

  test('any text survives up to its limit in bytes', () => {
    survives(text(100), ...hostile, 'x'.repeat(48), 'x'.repeat(49), `${'x'.repeat(31)}\u00e9`);
    survives(text(40_000), 'x'.repeat(20_000), '\u20ac'.repeat(13_333));
    refusesToWrite(text(100), 'TOO_LARGE', 'x'.repeat(101), '\u00e9'.repeat(51), 'x'.repeat(2 ** 20));
    refusesToWrite(text(100), 'BAD_ARGUMENT', undefined, 5, '\ud800', 'a\udc00b', ['x']);
    refusesToRead(text(2), 'fieldBytes', [3, 97, 97, 97]);
    refusesToRead(text(2), 'fieldLength', [2, 97], [0xff, 0xff, 0xff, 0xff, 0x0f]);
  });

  test('bytes that are not UTF-8 are rejected', () => {
    const surrogate = [3, 0xed, 0xa0, 0x80];
    const overlong = [2, 0xc0, 0x80];
    refusesToRead(text(100), 'utf8', [1, 0xff], [1, 0x80], surrogate, overlong, [2, 97, 0xc3]);
    refusesToRead(text(100), 'utf8', [40, ...Array.from({ length: 39 }, () => 97), 0xff]);
  });

  test('a name follows namePattern in every character', () => {
    for (let code = 0; code < 0x180; code++) {
      for (const candidate of [String.fromCharCode(code), `a${String.fromCharCode(code)}`]) {
        if (namePattern.test(candidate)) survives(name, candidate);
        else refusesToWrite(name, 'BAD_ARGUMENT', candidate);
        if (code < 0x80 && !namePattern.test(candidate)) {
          refusesToRead(name, 'name', [candidate.length, ...Array.from(candidate, (letter) => letter.charCodeAt(0))]);
        }
      }
    }
    survives(name, 'a'.repeat(63), `a${'-'.repeat(50)}`);
    // Names are interned by their length and three characters: these collide.
    survives(name, 'ab-c-dz', 'ax-c-yz', 'ab-c-dz');
    refusesToRead(name, 'name', [7, ...Array.from('aB-c-dz', (letter) => letter.charCodeAt(0))]);
    refusesToWrite(name, 'BAD_ARGUMENT', '', 'a'.repeat(64), undefined, ['a']);
    refusesToRead(name, 'name', [0], [64, ...Array.from({ length: 64 }, () => 97)], [2, 97, 0xff]);
  });
});

describe('bytes and node ids', () => {
  test('bytes survive up to their limit and are copied', () => {
    survives(bytes(300), new Uint8Array(0), Uint8Array.of(0, 255), new Uint8Array(300).fill(7));
    refusesToWrite(bytes(3), 'TOO_LARGE', new Uint8Array(4));
    refusesToWrite(bytes(3), 'BAD_ARGUMENT', 'abc', [1], undefined);
    refusesToRead(bytes(3), 'fieldBytes', [4, 1, 2, 3, 4]);
    const input = Buffer.from([1, 9]);
    const value = read(bytes(3), input);
    input.fill(0);
    assert.deepEqual(value, Uint8Array.of(9));
  });

  test('a node id has 32 lower-case hex digits', () => {
    survives(nodeId, '00ff0123456789abcdefa0b1c2d3e4f5' as NodeId);
    refusesToWrite(nodeId, 'BAD_ARGUMENT', '', 'A'.repeat(32), `${'0'.repeat(31)}g`, `g${'0'.repeat(31)}`, undefined);
    refusesToRead(nodeId, 'fieldLength', [15, ...Array.from({ length: 15 }, () => 1)], [0]);
  });
});

describe('lists and maps', () => {
  test('survive up to their limits', () => {
    survives(
      list(u53, 300),
      [],
      [1],
      Array.from({ length: 300 }, (_, i) => i * 1e12),
    );
    survives(list(list(text(10), 3), 3), [[], ['a', ''], ['', '', '']]);
    survives(
      map(text(20), u8, 3),
      new Map([
        ['__proto__', 1],
        ['constructor', 2],
        ['', 3],
      ]),
    );
    refusesToWrite(list(u8, 2), 'TOO_LARGE', [1, 2, 3]);
    refusesToWrite(list(u8, 2), 'BAD_ARGUMENT', 'ab', { length: 1 }, [1, undefined]);
    refusesToWrite(
      map(text(9), u8, 1),
      'TOO_LARGE',
      new Map([
        ['a', 1],
        ['b', 2],
      ]),
    );
    refusesToWrite(map(text(9), u8, 1), 'BAD_ARGUMENT', { a: 1 }, [['a', 1]], undefined);
  });

  test('are rejected with too many items, a truncated item or a duplicate key', () => {
    refusesToRead(list(u8, 2), 'itemCount', [3, 1, 2, 3]);
    refusesToRead(list(u64, 2), 'truncated', [7, 1, 2, 3, 4, 5, 6, 7]);
    refusesToRead(list(text(9), 2), 'fieldLength', [2, 5, 97]);
    refusesToRead(list(u8, 2), 'fieldLength', [0xff, 0xff, 0xff, 0x7f]);
    refusesToRead(map(text(9), u8, 1), 'itemCount', [6, 1, 97, 1, 1, 98, 1]);
    refusesToRead(map(text(9), u8, 9), 'duplicateKey', [6, 1, 97, 1, 1, 97, 2]);
    refusesToRead(map(text(9), u8, 9), 'truncated', [2, 1, 97]);
  });
});

describe('interned values', () => {
  test('survive as text, on a miss and on a hit, also outside ASCII', () => {
    const kind = shortInternedText(100);
    const words = [
      'noop',
      'addAll',
      'a much longer word, and with blanks',
      'm\u00e9thode',
      '',
      '__proto__',
      'x'.repeat(100),
    ];
    for (let round = 0; round < 20; round++) survives(kind, ...words);
    for (const value of words) assert.deepEqual(written(kind, value), written(text(100), value));
    refusesToWrite(kind, 'TOO_LARGE', 'y'.repeat(101));
    refusesToWrite(kind, 'BAD_ARGUMENT', 1, null, undefined, '\ud800');
    refusesToRead(kind, 'fieldLength', [4, 110, 111, 111]);
    refusesToRead(kind, 'utf8', [1, 0x80]);
  });

  test('survive as bytes, independent of the buffer that they came in', () => {
    const kind = bytes(10);
    survives(kind, ...[[], [0], [1, 1], [1, 12, 0], [1, 2, 3, 4]].map((list) => Uint8Array.from(list)));
    const input = Uint8Array.of(2, 7, 8);
    const first = read(kind, input);
    input[1] = 9;
    assert.deepEqual([...first], [7, 8]);
    assert.deepEqual([...read(kind, input)], [9, 8]);
    refusesToRead(kind, 'fieldBytes', [11, ...Array.from({ length: 11 }, () => 0)]);
    refusesToRead(kind, 'fieldLength', [2, 1]);
  });
});
