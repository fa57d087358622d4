import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import type { Outcome } from '../../base/errors.ts';
import { RemusterError } from '../../base/errors.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { crc32 } from '../../base/crc.ts';
import type { SnapshotRestore } from './state-machine.ts';
import { ChunkedBytesBuilder, chunkAt } from './snapshot.ts';
import { SnapshotBridge } from '../snapshots/snapshot-bridge.ts';

function joined(pieces: readonly Uint8Array[]): number[] {
  return pieces.flatMap((piece) => [...piece]);
}

describe('chunked bytes', () => {
  test('do not depend on how they were added, and are readable from any offset', () => {
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

describe('the snapshot bridge', () => {
  /** A state machine whose state is a list of bytes. */
  function bridgeScene(bytes: number) {
    const timeline = new Timeline();
    const log: string[] = [];
    const seen: number[] = [];
    let problem: Error | undefined;
    const builder = new ChunkedBytesBuilder(1);
    builder.add(Uint8Array.from({ length: bytes }, (_, i) => i));
    const stateMachine = {
      snapshot: () => Array.from({ length: bytes }, (_, i) => Uint8Array.of(i)),
      beginRestore: (): SnapshotRestore => ({
        add: ([byte]) => {
          if (problem !== undefined) throw problem;
          seen.push(byte as number);
        },
        finish: () => void seen.push(-1),
      }),
    };
    const bridge = new SnapshotBridge({
      clock: { schedule: (delayMs, run) => timeline.after(delayMs, run) },
      stateMachine,
      onPart: (number, part) => log.push(`${number}: ${part?.join() ?? 'end'}`),
      onFailed: (error) => log.push(String(error)),
    });
    let outcome: Outcome<void> | undefined;
    const startRestore = (): void => bridge.restoreAll(builder.finish(), (ended) => void (outcome = ended));
    const fail = (error: Error): void => void (problem = error);
    return { timeline, bridge, log, seen, startRestore, fail, ended: () => outcome };
  }

  test('captures one part per turn on request, and none of a cancelled capture', () => {
    const { bridge, timeline, log } = bridgeScene(2);
    bridge.startCapture(1);
    assert.deepEqual(log, []);
    timeline.runUntil(1);
    assert.deepEqual(log, ['1: 0']);
    bridge.captureNext();
    bridge.dropCapture();
    bridge.startCapture(2);
    timeline.runUntil(2);
    for (let i = 0; i < 3; i++) {
      bridge.captureNext();
      timeline.runUntil(3 + i);
    }
    assert.deepEqual(log, ['1: 0', '2: 0', '2: 1', '2: end']);
  });

  test('restores over several turns, and fails when the group is stopped or the state is invalid', () => {
    const whole = bridgeScene(4);
    whole.startRestore();
    assert.deepEqual([whole.ended(), whole.seen.length < 4], [undefined, true]);
    whole.timeline.runUntil(10);
    assert.deepEqual([whole.ended()?.ok, whole.seen], [true, [0, 1, 2, 3, -1]]);

    const stopped = bridgeScene(4);
    stopped.startRestore();
    stopped.bridge.stop();
    stopped.timeline.runUntil(10);
    const ended = stopped.ended();
    assert.ok(ended !== undefined && !ended.ok && ended.error.code === 'CANCELLED');
    assert.ok(!stopped.seen.includes(-1));

    const damaged = bridgeScene(4);
    damaged.startRestore();
    damaged.fail(new RemusterError('STORE_CORRUPT', 'no state'));
    damaged.timeline.runUntil(10);
    const refused = damaged.ended();
    assert.ok(refused !== undefined && !refused.ok && refused.error.code === 'STORE_CORRUPT');
  });
});
