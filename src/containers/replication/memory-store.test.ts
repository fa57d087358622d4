/** Rows of a pool in memory. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { packRows } from '../../base/row-codec.ts';
import type { StoreEntry } from '../../base/ports.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { unpackedCommit } from './log-tail.ts';
import { createMemoryStore } from './memory-store.ts';

describe('a memory store', () => {
  test('copies values out of the buffers in which they arrive', () => {
    const timeline = new Timeline();
    const store = createMemoryStore({ schedule: (ms, run) => timeline.after(ms, run) });
    const large = new Uint8Array(8_192).fill(7);
    const rows = ['a', 'b'].map((key) => ({ key, value: large.subarray(0, 100) }));
    store.write(unpackedCommit(rows.slice(0, 1), 0).writes, () => {});
    store.write([{ prefix: '', packed: packRows(rows.slice(1)) }], () => {});
    large.fill(0);
    const found: StoreEntry[] = [];
    store.read({ from: '', to: 'z', limit: 10 }, (outcome) => found.push(...(outcome.ok ? outcome.value : [])));
    timeline.runUntil(1);
    assert.deepEqual(
      found.map(({ key, value }) => [key, value[99], value.buffer.byteLength]),
      [
        ['a', 7, 100],
        ['b', 7, 100],
      ],
    );
  });
});
