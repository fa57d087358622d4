import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isRemusterError } from './errors.ts';
import { MessageIds, namePattern, nodeIdFrom, parseCallId, parseNodeId, formatCallId } from './ids.ts';

const refused = (error: unknown) => isRemusterError(error, 'BAD_ARGUMENT');

describe('message ids', () => {
  it('only grow: when time stands still, runs back or the sequence runs over', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 2 ** 41 - 1, noNaN: true }), { maxLength: 50 }), (times) => {
        const ids = new MessageIds(7);
        let last = -1n;
        for (const nowMs of times) {
          const id = ids.next(nowMs);
          assert.ok(id > last);
          last = id;
        }
      }),
    );
    const ids = new MessageIds(7);
    const seen = new Set(Array.from({ length: 10_000 }, () => ids.next(5)));
    assert.equal(seen.size, 10_000);
  });

  it('of two nodes never meet', () => {
    const [one, two] = [new MessageIds(1), new MessageIds(2)];
    const ones = new Set(Array.from({ length: 5000 }, () => one.next(1)));
    for (let i = 0; i < 5000; i++) assert.ok(!ones.has(two.next(1)));
  });

  it('fit into 64 bits', () => {
    assert.ok(new MessageIds(1023).next(2 ** 41 - 1) < 2n ** 63n);
  });
});

describe('call ids', () => {
  it('are read back as printed', () => {
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

  it('refuse what is not one', () => {
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
