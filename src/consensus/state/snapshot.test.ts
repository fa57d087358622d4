import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import type { Outcome } from '../../base/errors.ts';
import { RemusterError } from '../../base/errors.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { crc32 } from '../../base/checksum.ts';
import type { SnapshotRestore } from './state-machine.ts';
import { ChunkedBytesBuilder, chunkAt } from './state-bytes.ts';
import { SnapshotBridge } from '../snapshots/snapshot-bridge.ts';

function joined(pieces: readonly Uint8Array[]): number[] {
  return pieces.flatMap((piece) => [...piece]);
}

describe('the bytes of a state', () => {
  test('are the same however they came, in pieces of one size, from any offset on', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 30 })), fc.integer({ min: 1, max: 20 }), (parts, chunkBytes) => {
        const builder = new ChunkedBytesBuilder(chunkBytes);
        for (const part of parts) builder.add(part);
        const state = builder.finish();
        const whole = joined(parts);
        assert.deepEqual(joined(state.chunks), whole);
        assert.equal(state.length, whole.length);
        assert.equal(state.checksum, crc32(Uint8Array.from(whole)));
        for (const chunk of state.chunks.slice(0, -1)) assert.equal(chunk.length, chunkBytes);
        for (let at = 0; at < whole.length; at++) {
          const piece = chunkAt(state, at);
          assert.ok(piece.length > 0);
          assert.deepEqual([...piece], whole.slice(at, at + piece.length));
        }
        assert.equal(chunkAt(state, whole.length).length, 0);
      }),
    );
  });
});

describe('a state on its way', () => {
  /** A replica whose state is a list of bytes. */
  function scene(bytes: number) {
    const timeline = new Timeline();
    const got: string[] = [];
    const seen: number[] = [];
    let fault: Error | undefined;
    const builder = new ChunkedBytesBuilder(1);
    builder.add(Uint8Array.from({ length: bytes }, (_, i) => i));
    const replica = {
      snapshot: () => Array.from({ length: bytes }, (_, i) => Uint8Array.of(i)),
      beginRestore: (): SnapshotRestore => ({
        add: ([byte]) => {
          if (fault !== undefined) throw fault;
          seen.push(byte as number);
        },
        finish: () => void seen.push(-1),
      }),
    };
    const carrier = new SnapshotBridge({
      clock: { schedule: (delayMs, run) => timeline.after(delayMs, run) },
      replica,
      onPart: (number, part) => got.push(`${number}: ${part?.join() ?? 'end'}`),
      failed: (error) => got.push(String(error)),
    });
    let outcome: Outcome<void> | undefined;
    const giveAll = (): void => carrier.restoreAll(builder.finish(), (ended) => void (outcome = ended));
    const fail = (error: Error): void => void (fault = error);
    return { timeline, carrier, got, seen, giveAll, fail, ended: () => outcome };
  }

  test('goes one part a turn, each when it is asked for, and none of one that was given up', () => {
    const { carrier, timeline, got } = scene(2);
    carrier.startCapture(1);
    assert.deepEqual(got, []);
    timeline.runUntil(1);
    assert.deepEqual(got, ['1: 0']);
    carrier.captureNext();
    carrier.dropCapture();
    carrier.startCapture(2);
    timeline.runUntil(2);
    for (let i = 0; i < 3; i++) {
      carrier.captureNext();
      timeline.runUntil(3 + i);
    }
    assert.deepEqual(got, ['1: 0', '2: 0', '2: 1', '2: end']);
  });

  test('from the disk arrives over several turns, and ends when the group is stopped or it makes no sense', () => {
    const whole = scene(4);
    whole.giveAll();
    assert.deepEqual([whole.ended(), whole.seen.length < 4], [undefined, true]);
    whole.timeline.runUntil(10);
    assert.deepEqual([whole.ended()?.ok, whole.seen], [true, [0, 1, 2, 3, -1]]);

    const stopped = scene(4);
    stopped.giveAll();
    stopped.carrier.stop();
    stopped.timeline.runUntil(10);
    const ended = stopped.ended();
    assert.ok(ended !== undefined && !ended.ok && ended.error.code === 'CANCELLED');
    assert.ok(!stopped.seen.includes(-1));

    const damaged = scene(4);
    damaged.giveAll();
    damaged.fail(new RemusterError('STORE_CORRUPT', 'no state'));
    damaged.timeline.runUntil(10);
    const refused = damaged.ended();
    assert.ok(refused !== undefined && !refused.ok && refused.error.code === 'STORE_CORRUPT');
  });
});
