import assert from 'node:assert/strict';
import { test } from 'node:test';

import { segmentKinds, readSegments } from './segment.ts';
import { chunkBytes, framePayloadBytesMax, SendQueue } from './send-queue.ts';
import { OutboundTransfer } from './outbound-transfer.ts';

const mib = 2 ** 20;
const small = Buffer.from('small');
const header = { kind: segmentKinds.notify, flags: 0, id: 0, argument: 0 };

function transfer(id: number, bytes: number): OutboundTransfer {
  return new OutboundTransfer(id, header, new Uint8Array(bytes), bytes, () => undefined);
}

/** Kind and id of each segment of a frame, and the size of parts. */
function segmentsOf(frame: Uint8Array | undefined): string[] {
  const names = new Map<number, string>(Object.entries(segmentKinds).map(([name, kind]) => [kind, name]));
  const found: string[] = [];
  if (frame === undefined) return found;
  readSegments(frame, (kind, _flags, id, _argument, body) => {
    found.push(kind === segmentKinds.part ? `part ${id} ${body.length}` : `${names.get(kind)} ${id}`);
  });
  return found;
}

test('many small segments share a frame', () => {
  const queue = new SendQueue();
  for (let i = 1; i <= 100; i++) queue.push(segmentKinds.request, 0, i, 0, small);
  assert.equal(segmentsOf(queue.next()).length, 100);
  assert.equal(queue.next(), undefined);
  assert.equal(queue.bytes, 0);
  assert.equal(queue.empty, true);
});

test('a small message waits for no more than one chunk of a 10 MB message', () => {
  const queue = new SendQueue();
  queue.add(transfer(1, 10 * mib));
  assert.deepEqual(segmentsOf(queue.next()), ['begin 1', `part 1 ${chunkBytes}`]);
  for (let i = 0; i < 20; i++) {
    queue.push(segmentKinds.request, 0, 77, 0, small);
    // It precedes the chunk of its frame: only the previous frame is ahead of it.
    assert.deepEqual(segmentsOf(queue.next()), ['request 77', `part 1 ${chunkBytes}`]);
  }
});

test('large messages are sent round robin, at most eight at a time', () => {
  const queue = new SendQueue();
  for (let id = 1; id <= 10; id++) queue.add(transfer(id, 2 * chunkBytes));
  const order: string[] = [];
  for (let frame = queue.next(); frame !== undefined; frame = queue.next()) order.push(...segmentsOf(frame));
  const parts = order.filter((name) => name.startsWith('part')).map((name) => Number(name.split(' ')[1]));
  assert.deepEqual(parts, [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 9, 10]);
  assert.equal(queue.bytes, 0);
  assert.equal(queue.empty, true);
});

test('small messages do not starve a large one', () => {
  const queue = new SendQueue();
  queue.add(transfer(1, 3 * chunkBytes));
  let parts = 0;
  for (let frame = 0; frame < 3; frame++) {
    for (let i = 0; i < 1_000; i++) queue.push(segmentKinds.notify, 0, 0, 0, new Uint8Array(100));
    parts += segmentsOf(queue.next()).filter((name) => name.startsWith('part')).length;
  }
  assert.equal(parts, 3);
});

test('no frame exceeds the bound of a receiver, and every segment is sent', () => {
  const queue = new SendQueue();
  queue.add(transfer(1, mib));
  for (let i = 0; i < 50; i++) queue.push(segmentKinds.notify, 0, i, 0, new Uint8Array(chunkBytes));
  let notified = 0;
  for (let frame = queue.next(); frame !== undefined; frame = queue.next()) {
    assert.ok(frame.length <= framePayloadBytesMax);
    notified += segmentsOf(frame).filter((name) => name.startsWith('notify')).length;
  }
  assert.equal(notified, 50);
});

test('an abandoned transfer sends a drop if it had begun, and leaves no bytes in the queue', () => {
  const queue = new SendQueue();
  const [begun, waiting] = [transfer(1, mib), transfer(2, mib)];
  queue.add(begun);
  queue.next();
  queue.add(waiting);
  begun.drop(queue);
  waiting.drop(queue);
  assert.deepEqual(segmentsOf(queue.next()), ['drop 1']);
  assert.equal(queue.next(), undefined);
  assert.equal(queue.bytes, 0);
});

test('queued segments stay intact when their block grows', () => {
  const queue = new SendQueue();
  const body = (i: number): Uint8Array => new Uint8Array(i * 37).fill(i);
  for (let i = 1; i <= 50; i++) queue.push(segmentKinds.notify, 0, i, 0, body(i));
  queue.add(transfer(99, chunkBytes));
  const arrived: number[] = [];
  for (let frame = queue.next(); frame !== undefined; frame = queue.next()) {
    readSegments(frame, (kind, _flags, id, _argument, found) => {
      if (kind !== segmentKinds.notify) return;
      assert.deepEqual(new Uint8Array(found), body(id));
      arrived.push(id);
    });
  }
  assert.deepEqual(
    arrived,
    Array.from({ length: 50 }, (_, i) => i + 1),
  );
});
