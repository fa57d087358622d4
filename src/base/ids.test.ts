import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isRemusterError } from './errors.ts';
import { namePattern, nodeIdFrom, parseCallId, parseNodeId, formatCallId } from './ids.ts';

const refused = (error: unknown) => isRemusterError(error, 'BAD_ARGUMENT');

describe('call ids', () => {
  it('survive the round trip through text', () => {
    const id = fc.record(
      {
        session: fc.stringMatching(namePattern),
        generation: fc.nat({ max: 0xffff_ffff }),
        counter: fc.maxSafeNat(),
      },
      { noNullPrototype: true },
    );
    fc.assert(fc.property(id, (value) => assert.deepEqual(parseCallId(formatCallId(value)), value)));
  });

  it('reject text of another form', () => {
    for (const text of [
      '',
      'a',
      'a/1',
      'a/1/2/3',
      '../1/2',
      'a/-1/2',
      'a/1/9007199254740993',
      'a/4294967296/1',
      'A/1/2',
      'a/1/2\n',
    ]) {
      assert.throws(() => parseCallId(text), refused, text);
    }
  });
});

describe('node ids', () => {
  it('are 32 hexadecimal digits', () => {
    const id = nodeIdFrom(Uint8Array.from({ length: 16 }, (_, i) => i));
    assert.equal(id, '000102030405060708090a0b0c0d0e0f');
    assert.equal(parseNodeId(id), id);
    for (const text of ['', 'xyz', id.toUpperCase(), `${id}0`]) assert.throws(() => parseNodeId(text), refused);
  });
});
