import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Random } from '../../base/random.ts';
import { type LinkConditions, SimulatedNetwork } from './simulated-network.ts';
import { Timeline } from './timeline.ts';

const plain: LinkConditions = {
  delayMs: 1,
  jitterMs: 0,
  lossRatio: 0,
  duplicateRatio: 0,
  reorderRatio: 0,
  bytesPerSecond: 0,
};

type TestNetwork = {
  readonly timeline: Timeline;
  readonly network: SimulatedNetwork;
  readonly send: (count: number, sizeBytes?: number) => string[];
};

function testNetwork(patch: Partial<LinkConditions> = {}): TestNetwork {
  const timeline = new Timeline();
  const network = new SimulatedNetwork(timeline, new Random('network'), { ...plain, ...patch });
  const arrivals: string[] = [];
  const send = (count: number, sizeBytes = 100): string[] => {
    const from = arrivals.length;
    for (let i = 0; i < count; i++) network.datagram(0, 1, sizeBytes, () => arrivals.push(String(i)));
    timeline.runUntil(timeline.nowMs + 10_000);
    return arrivals.slice(from);
  };
  return { timeline, network, send };
}

it('a healthy link delivers each datagram once and in order', () => {
  const { send } = testNetwork();
  assert.deepEqual(send(4), ['0', '1', '2', '3']);
});

it('a link loses datagrams at its loss ratio', () => {
  const lost = 2_000 - testNetwork({ lossRatio: 0.25 }).send(2_000).length;
  assert.ok(lost > 420 && lost < 580, `${lost} of 2000`);
});

it('a link duplicates datagrams at its duplicate ratio', () => {
  const duplicates = testNetwork({ duplicateRatio: 0.25 }).send(2_000).length - 2_000;
  assert.ok(duplicates > 420 && duplicates < 580, `${duplicates} of 2000`);
});

it('a link reorders datagrams only with a reorder ratio or jitter', () => {
  const inOrder = (list: string[]) => list.every((one, i) => i === 0 || Number(list[i - 1]) < Number(one));
  assert.ok(inOrder(testNetwork().send(100)));
  assert.ok(!inOrder(testNetwork({ reorderRatio: 0.3 }).send(100)));
  assert.ok(!inOrder(testNetwork({ jitterMs: 5 }).send(100)));
});

it('a cut of one direction drops datagrams in flight and leaves the other direction whole', () => {
  const { network, timeline, send } = testNetwork();
  network.cut(0, 1);
  assert.deepEqual(send(3), []);
  let back = 0;
  network.datagram(1, 0, 10, () => (back += 1));
  timeline.runUntil(timeline.nowMs + 5);
  assert.equal(back, 1);
  network.mend(0, 1);
  network.datagram(0, 1, 10, () => assert.fail('it was in flight when the link was cut'));
  network.cut(0, 1);
  timeline.runUntil(timeline.nowMs + 5);
  network.mend(0, 1);
  assert.deepEqual(send(1), ['0']);
});

it('a link that was cut twice is whole after two mends and reports the start of the cut', () => {
  const { network, timeline, send } = testNetwork();
  timeline.runUntil(7);
  network.cut(0, 1);
  network.cut(0, 1);
  network.mend(0, 1);
  assert.equal(network.cutSinceMs(0, 1), 7);
  assert.deepEqual(send(1), []);
  network.mend(0, 1);
  network.mend(0, 1);
  assert.equal(network.isCut(0, 1), false);
  assert.equal(network.cutSinceMs(0, 1), Infinity);
  assert.deepEqual(send(1), ['0']);
});

it('a narrow link delays large transfers and drops datagrams when its queue is full', () => {
  const { network, timeline } = testNetwork({ bytesPerSecond: 10_000 });
  assert.ok(network.segmentMs(0, 1, 940) >= 100);
  assert.ok(network.segmentMs(0, 1, 940) >= 200, 'the second waits for the first');
  let arrived = 0;
  for (let i = 0; i < 10; i++) network.datagram(0, 1, 940, () => (arrived += 1));
  timeline.runUntil(10_000);
  assert.ok(arrived < 3, `${arrived} arrived`);
});

it('loss delays the segments of a connection', () => {
  const { network } = testNetwork({ lossRatio: 0.5 });
  const slow = Array.from({ length: 100 }, () => network.segmentMs(0, 1, 10)).filter((ms) => ms >= 200);
  assert.ok(slow.length > 25 && slow.length < 75);
});

it('conditions of a link are changed and restored one by one, and all healed together', () => {
  const { network, send } = testNetwork();
  network.change(0, 1, { lossRatio: 1, delayMs: 5 });
  assert.deepEqual(send(2), []);
  network.restore(0, 1, ['lossRatio']);
  assert.equal(network.segmentMs(0, 1, 0), 5);
  assert.deepEqual(send(1), ['0']);
  network.cut(0, 1);
  let mended = 0;
  network.onceMended(0, 1, () => (mended += 1));
  network.heal();
  assert.equal(network.segmentMs(0, 1, 0), 1);
  assert.deepEqual(send(1), ['0']);
  assert.equal(mended, 1);
});
