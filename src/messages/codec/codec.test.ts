import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AssertionFailed } from '../../base/assert.ts';
import { type ErrorCode, isRemusterError } from '../../base/errors.ts';
import { wireFormat } from '../../base/format-versions.ts';
import { createCodec, peekTag } from './codec.ts';
import { type MessageFields, field, list, optional, record } from './compound.ts';
import { message } from './message.ts';
import { u32, u64, u8 } from './numbers.ts';
import { type RejectionReason, rejectionReason } from './decode-error.ts';
import { bytes, text } from './strings.ts';

function note<F extends MessageFields>(fields: F, bytesMax = 1_000) {
  return message({ kind: 'note', tag: 0x0102, carrier: 'both', from: ['worker'], bytesMax, doc: '.', fields });
}

const point = record('point', { x: field(1, u8, '.'), y: field(2, u8, '.') });
const codec = createCodec([
  note({ count: field(2, u8, '.'), at: field(4, point, '.'), word: field(5, optional(text(9)), '.') }),
]);
const value = { kind: 'note', count: 7, at: { x: 1, y: 2 }, word: undefined } as const;
/** Version, tag; field 2 varint 7; field 4 delimited, 4 bytes: field 1 varint 1, field 2 varint 2. */
const valid = [wireFormat, 1, 2, 8, 7, 18, 4, 4, 1, 8, 2];

function refuses(input: readonly number[], reason: RejectionReason, code: ErrorCode = 'MALFORMED'): void {
  assert.throws(
    () => codec.decode(Uint8Array.from(input)),
    (error) => rejectionReason(error) === reason && isRemusterError(error, code),
    `${reason}: ${input.join(' ')}`,
  );
}

describe('the bytes of a message', () => {
  test('are version, tag and fields in ascending order', () => {
    assert.deepEqual([...codec.encode(value)], valid);
    assert.deepEqual(codec.decode(Uint8Array.from(valid)), value);
    assert.equal(peekTag(Uint8Array.from(valid)), 0x0102);
    assert.equal(peekTag(Uint8Array.of(1, 2)), undefined);
  });

  test('do not depend on the order in which fields were declared or given', () => {
    const shuffled = createCodec([note({ b: field(2, u8, '.'), a: field(1, u8, '.') })]);
    assert.deepEqual([...shuffled.encode({ b: 2, kind: 'note', a: 1 })], [wireFormat, 1, 2, 4, 1, 8, 2]);
  });

  test('hold field numbers of more than one byte', () => {
    const wide = createCodec([note({ near: field(31, u8, '.'), far: field(32, u8, '.'), end: field(4_095, u8, '.') })]);
    const sent = { kind: 'note', near: 1, far: 0, end: 255 } as const;
    assert.deepEqual(wide.decode(wide.encode(sent)), sent);
  });
});

describe('decoding rejects anything but one valid message', () => {
  test('by its header', () => {
    refuses([], 'header');
    refuses([wireFormat, 1], 'header');
    refuses([wireFormat - 1, ...valid.slice(1)], 'version', 'INCOMPATIBLE_VERSION');
    refuses([wireFormat + 1, ...valid.slice(1)], 'version', 'INCOMPATIBLE_VERSION');
    refuses([wireFormat, 1, 3, ...valid.slice(3)], 'unknownTag');
  });

  test('by its fields', () => {
    refuses([wireFormat, 1, 2, 18, 4, 4, 1, 8, 2], 'missingField');
    refuses([wireFormat, 1, 2, 8, 7, 18, 2, 4, 1], 'missingField');
    refuses([wireFormat, 1, 2, 8, 7, 8, 7, 18, 4, 4, 1, 8, 2], 'duplicateField');
    refuses([...valid, 18, 4, 4, 1, 8, 2], 'duplicateField');
    refuses([...valid, 8, 7], 'fieldOrder');
    refuses([...valid, 22, 0, 22, 0], 'duplicateField');
    refuses([wireFormat, 1, 2, 8, 7, 4, 7, 18, 4, 4, 1, 8, 2], 'fieldOrder');
    refuses([wireFormat, 1, 2, 10, 1, 7, 18, 4, 4, 1, 8, 2], 'wireType');
    refuses([wireFormat, 1, 2, 8, 7, 18, 5, 4, 1, 8, 2], 'fieldLength');
    refuses([...valid, 0], 'fieldNumber');
    refuses([...valid, 0x80, 0x80, 0x01, 0], 'fieldNumber');
    refuses([...valid, 27], 'wireType');
  });

  test('at every truncation', () => {
    for (let length = 0; length < valid.length; length++) {
      assert.throws(
        () => codec.decode(Uint8Array.from(valid.slice(0, length))),
        (error) => rejectionReason(error) !== undefined,
      );
    }
  });

  test('by its size, also when encoding', () => {
    const small = createCodec([note({ body: field(1, bytes(1_000), '.') }, 100)]);
    const fits = { kind: 'note', body: new Uint8Array(95) } as const;
    assert.deepEqual(small.decode(small.encode(fits)), fits);
    for (const length of [96, 1_000]) {
      assert.throws(
        () => small.encode({ kind: 'note', body: new Uint8Array(length) }),
        (error) => isRemusterError(error, 'TOO_LARGE'),
      );
    }
    assert.throws(
      () => small.decode(Uint8Array.from([wireFormat, 1, 2, ...new Uint8Array(98)])),
      (error) => rejectionReason(error) === 'messageBytes' && isRemusterError(error, 'TOO_LARGE'),
    );
  });

  test('before an endless list fills the memory', () => {
    const endless = createCodec([note({ items: field(1, list(bytes(100_000), 100_000), '.') }, 1_000)]);
    const item = new Uint8Array(100_000);
    const items = Array.from({ length: 100_000 }, () => item);
    assert.throws(
      () => endless.encode({ kind: 'note', items }),
      (error) => isRemusterError(error, 'TOO_LARGE'),
    );
  });
});

describe('neighbouring versions', () => {
  const older = createCodec([note({ b: field(2, u8, '.'), p: field(4, point, '.') })]);
  const richer = record('point', { x: field(1, u8, '.'), y: field(2, u8, '.'), z: field(3, optional(u8), '.') });
  const newer = createCodec([
    note({
      a: field(1, optional(u64), '.'),
      b: field(2, u8, '.'),
      c: field(3, optional(text(50)), '.'),
      p: field(4, richer, '.'),
      d: field(900, optional(list(u32, 9)), '.'),
    }),
  ]);

  test('an older reader skips fields that a newer writer added, at every depth', () => {
    const sent = { kind: 'note', a: 2n ** 60n, b: 5, c: 'new', p: { x: 1, y: 2, z: 3 }, d: [1, 2 ** 31] } as const;
    assert.deepEqual(older.decode(newer.encode(sent)), { kind: 'note', b: 5, p: { x: 1, y: 2 } });
  });

  test('a newer reader sees added fields of an older writer as absent', () => {
    const expected = { kind: 'note', a: undefined, b: 5, c: undefined, p: { x: 1, y: 2, z: undefined }, d: undefined };
    assert.deepEqual(newer.decode(older.encode({ kind: 'note', b: 5, p: { x: 1, y: 2 } })), expected);
  });

  test('the length of an unknown field is checked too', () => {
    refuses([...valid, 26, 0xff, 0xff, 0x03], 'fieldLength');
    refuses([...valid, 25, 1, 2, 3], 'truncated');
    refuses([...valid, 24, ...Array.from({ length: 11 }, () => 0xff)], 'varint');
  });
});

describe('encoding', () => {
  test('rejects an undeclared kind', () => {
    assert.throws(
      () => codec.encode({ ...value, kind: '__proto__' } as never),
      (error) => isRemusterError(error, 'BAD_ARGUMENT'),
    );
  });

  test('returns separate bytes for each message, also after a failure and across slabs', () => {
    const echo = createCodec([note({ body: field(1, bytes(100_000), '.') }, 200_000)]);
    const sizes = Array.from({ length: 300 }, (_, i) => (i * 37) % (i % 50 === 0 ? 20_000 : 200));
    const sent = sizes.map((size, i) => {
      assert.throws(() => echo.encode({ kind: 'note', body: new Uint8Array(100_001) }));
      return echo.encode({ kind: 'note', body: new Uint8Array(size).fill(i) });
    });
    for (const [i, encoded] of sent.entries()) {
      assert.deepEqual(echo.decode(encoded).body, new Uint8Array(sizes[i] as number).fill(i));
    }
  });

  test('survives a getter that encodes another message', () => {
    const tricky = {
      kind: 'note',
      get count() {
        return codec.encode({ ...value, count: 99 }).length;
      },
      at: { x: 1, y: 2 },
      word: undefined,
    } as const;
    assert.equal(codec.decode(codec.encode(tricky)).count, valid.length);
  });
});

describe('an invalid declaration fails at once', () => {
  const mistakes: Readonly<Record<string, () => unknown>> = {
    'a field number twice': () => note({ a: field(1, u8, '.'), b: field(1, u8, '.') }),
    'a field number of 0': () => field(0, u8, '.'),
    'a field number that is too high': () => field(4_096, u8, '.'),
    'a field called kind': () => note({ kind: field(1, u8, '.') }),
    'a field called __proto__': () => note(Object.fromEntries([['__proto__', field(1, u8, '.')]])),
    'a size limit beyond what a length can say': () => note({}, 2 ** 28),
    'two messages of one name and tag': () => createCodec([note({}), note({})]),
  };
  for (const [mistake, make] of Object.entries(mistakes)) {
    test(mistake, () => assert.throws(make, AssertionFailed));
  }
});
