import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { packRows } from '../../base/row-codec.ts';
import { type BufferedStoreCall, StoreCallBuffer } from './call-buffer.ts';
import { packBatch, type StoreRead } from './store-protocol.ts';

function bytesOf(callBuffer: StoreCallBuffer, call: BufferedStoreCall | undefined): Buffer {
  assert.ok(call?.kind === 'write');
  return Buffer.from(callBuffer.packed(call.start, call.end));
}

const read: StoreRead = { kind: 'read', from: Uint8Array.of(1), to: Uint8Array.of(2), limit: 3 };

describe('a store call buffer', () => {
  it('keeps each write as it was when it was buffered, adjacent and in order', () => {
    const callBuffer = new StoreCallBuffer();
    for (const round of [1, 2, 3]) {
      const expected: Uint8Array[] = [];
      for (let i = 0; i < 300; i++) {
        const value = new Uint8Array((i * 37) % 4_000).fill(i + round);
        const rows = { prefix: `${round}/`, packed: packRows([{ key: `r${i}`, value }]) };
        const batch =
          i % 3 === 0 ? [{ key: `k${i}`, value }, rows, rows] : [rows, { key: `gr\u00f6\u00dfe${i}`, value }];
        expected.push(packBatch(batch));
        assert.equal(callBuffer.write(batch), expected.at(-1)?.length);
        value.fill(0xee);
        rows.packed.fill(0xee);
        if (i % 50 === 49) callBuffer.read(read);
      }
      const writes = callBuffer.calls.filter(({ kind }) => kind === 'write');
      assert.equal(callBuffer.calls.length - writes.length, 6);
      assert.deepEqual(callBuffer.calls[50], read);
      assert.ok(writes.every((call, i) => bytesOf(callBuffer, call).equals(expected[i] ?? Buffer.alloc(0))));
      const [first, last] = [writes[0], writes.at(-1)];
      assert.ok(first?.kind === 'write' && last?.kind === 'write');
      assert.ok(Buffer.concat(expected).equals(callBuffer.packed(first.start, last.end)), 'they are adjacent');
      callBuffer.clear();
      assert.equal(callBuffer.calls.length, 0);
    }
  });

  it('reuses its memory unless that has become large', () => {
    const callBuffer = new StoreCallBuffer();
    const memory = (bytes: number): ArrayBufferLike => {
      callBuffer.write([{ key: 'k', value: new Uint8Array(bytes) }]);
      const { buffer } = callBuffer.packed(0, 1);
      callBuffer.clear();
      return buffer;
    };
    const kept = memory(1_000_000);
    assert.equal(memory(10), kept);
    assert.equal(memory(900_000), kept);
    const large = memory(9_000_000);
    assert.ok(large.byteLength >= 9_000_000);
    assert.ok(memory(10).byteLength < 1_000_000);
  });
});
