import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Outcome } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import { noFailpoints } from '../../base/failpoints.ts';
import { SimulatedDisk } from './simulated-disk.ts';
import { simulatedFiles } from '../world/simulated-files.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { simulatedStore } from '../world/simulated-store.ts';
import { Timeline } from './timeline.ts';

const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);
const bytes = (value: string): Uint8Array => new TextEncoder().encode(value);

function machine(seed: string) {
  const timeline = new Timeline();
  const disk = new SimulatedDisk(timeline, new Random(seed));
  const process = new SimulatedProcess(timeline, {
    threw: (error) => {
      throw error;
    },
  });
  const settle = <T>(start: (done: (outcome: Outcome<T>) => void) => void): Outcome<T> => {
    let ended: Outcome<T> | undefined;
    start((outcome) => (ended = outcome));
    timeline.runUntil(timeline.nowMs + 60_000);
    assert.ok(ended !== undefined, 'the operation did not end');
    return ended;
  };
  const value = <T>(start: (done: (outcome: Outcome<T>) => void) => void): T => {
    const outcome = settle(start);
    assert.ok(outcome.ok);
    return outcome.value;
  };
  return {
    timeline,
    disk,
    files: simulatedFiles(disk, process),
    store: simulatedStore(disk, process, 's', noFailpoints),
    settle,
    value,
  };
}

it('a power loss keeps the synced bytes and any prefix of the tail, also a torn one', () => {
  const lengths = new Set<number>();
  let zeroed = 0;
  for (let seed = 0; seed < 300; seed++) {
    const { disk, files, value } = machine(String(seed));
    value<void>((done) => files.append('log', bytes('synced'), done));
    value<void>((done) => files.sync('log', done));
    value<void>((done) => files.append('log', bytes('tail'), done));
    disk.crash('lost');
    const found = text(value<Uint8Array | undefined>((done) => files.read('log', done)));
    assert.ok(found.startsWith('synced'));
    const tail = found.slice(6);
    lengths.add(tail.length);
    if (tail.includes('\0')) zeroed += 1;
    else assert.ok('tail'.startsWith(tail));
  }
  assert.deepEqual(
    [...lengths].toSorted((a, b) => a - b),
    [0, 1, 2, 3, 4],
  );
  assert.ok(zeroed > 20, `${zeroed} zeroed tails`);
});

it('a disk keeps everything when only the process dies', () => {
  const { disk, files, value } = machine('kept');
  value<void>((done) => files.append('log', bytes('tail'), done));
  disk.crash('kept');
  assert.equal(text(value<Uint8Array | undefined>((done) => files.read('log', done))), 'tail');
});

it('a crash applies a prefix of the operations in flight', () => {
  const seen = new Set<number>();
  for (let seed = 0; seed < 100; seed++) {
    const { disk, store, timeline, value } = machine(String(seed));
    for (let i = 0; i < 4; i++)
      store.write([{ key: `k${i}`, value: bytes('v') }], () => assert.fail('the crash came first'));
    disk.crash('lost');
    timeline.runUntil(1_000);
    const keys = value<readonly { key: string }[]>((done) => store.read({ from: '', to: 'z', limit: 9 }, done));
    assert.deepEqual(
      keys.map(({ key }) => key),
      ['k0', 'k1', 'k2', 'k3'].slice(0, keys.length),
    );
    seen.add(keys.length);
  }
  assert.ok(seen.size > 2);
});

it('a slow disk delays its operations', () => {
  const { disk, timeline, store } = machine('slow');
  disk.change({ operationMs: 400 });
  let endedMs = 0;
  store.write([{ key: 'a', value: bytes('1') }], () => (endedMs = timeline.nowMs));
  timeline.runUntil(399);
  assert.equal(endedMs, 0);
  timeline.runUntil(500);
  assert.ok(endedMs >= 400);
});

it('a full disk rejects what needs space and still removes', () => {
  const { disk, store, files, settle } = machine('full');
  settle<void>((done) => store.write([{ key: 'a', value: bytes('1') }], done));
  disk.change({ full: true });
  const refused = settle<void>((done) => store.write([{ key: 'b', value: bytes('2') }], done));
  assert.ok(!refused.ok && refused.error.code === 'STORE_FULL');
  const appended = settle<void>((done) => files.append('f', bytes('x'), done));
  assert.ok(!appended.ok && appended.error.code === 'STORE_FULL');
  assert.ok(settle<void>((done) => store.write([{ key: 'a', value: null }], done)).ok);
});

it('a flipped bit is read from a file, and is STORE_CORRUPT in a store', () => {
  for (let seed = 0; seed < 20; seed++) {
    const { disk, files, store, settle, value } = machine(String(seed));
    value<void>((done) => files.replace('f', bytes('content'), done));
    const before = value<Uint8Array | undefined>((done) => files.read('f', done));
    assert.equal(disk.flipRandomBit(), 'file f');
    const after = value<Uint8Array | undefined>((done) => files.read('f', done));
    const flipped = before?.reduce((sum, byte, i) => sum + bitCount(byte ^ (after?.[i] ?? 0)), 0);
    assert.equal(flipped, 1);
    value<void>((done) => files.remove('f', done));
    value<void>((done) => store.write([{ key: 'k', value: bytes('content') }], done));
    assert.equal(disk.flipRandomBit(), 's k');
    const read = settle((done) => store.read({ from: 'k', to: 'l', limit: 1 }, done));
    assert.ok(!read.ok && read.error.code === 'STORE_CORRUPT');
  }
  assert.equal(machine('empty').disk.flipRandomBit(), 'nothing');
});

function bitCount(byte: number): number {
  return byte.toString(2).replaceAll('0', '').length;
}
