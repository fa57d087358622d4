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

type Connected = {
  readonly timeline: Timeline;
  readonly network: SimulatedNetwork;
  readonly send: (count: number, sizeBytes?: number) => string[];
};

function connected(patch: Partial<LinkConditions> = {}): Connected {
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

it('delivers each datagram once, in order, when nothing is wrong', () => {
  const { send } = connected();
  assert.deepEqual(send(4), ['0', '1', '2', '3']);
});

it('loses about as many as it should', () => {
  const lost = 2_000 - connected({ lossRatio: 0.25 }).send(2_000).length;
  assert.ok(lost > 420 && lost < 580, `${lost} of 2000`);
});

it('doubles some', () => {
  const doubled = connected({ duplicateRatio: 0.25 }).send(2_000).length - 2_000;
  assert.ok(doubled > 420 && doubled < 580, `${doubled} of 2000`);
});

it('lets some be overtaken, only when asked', () => {
  const inOrder = (list: string[]) => list.every((one, i) => i === 0 || Number(list[i - 1]) < Number(one));
  assert.ok(inOrder(connected().send(100)));
  assert.ok(!inOrder(connected({ reorderRatio: 0.3 }).send(100)));
  assert.ok(!inOrder(connected({ jitterMs: 5 }).send(100)));
});

it('cuts one direction and not the other, also for what is under way', () => {
  const { network, timeline, send } = connected();
  network.cut(0, 1);
  assert.deepEqual(send(3), []);
  let back = 0;
  network.datagram(1, 0, 10, () => (back += 1));
  timeline.runUntil(timeline.nowMs + 5);
  assert.equal(back, 1);
  network.mend(0, 1);
  network.datagram(0, 1, 10, () => assert.fail('it was under way when the link was cut'));
  network.cut(0, 1);
  timeline.runUntil(timeline.nowMs + 5);
  network.mend(0, 1);
  assert.deepEqual(send(1), ['0']);
});

it('adds cuts up and tells since when a link is cut', () => {
  const { network, timeline, send } = connected();
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

it('makes large things slow on a narrow link, and drops datagrams when the router is full', () => {
  const { network, timeline } = connected({ bytesPerSecond: 10_000 });
  assert.ok(network.segmentMs(0, 1, 940) >= 100);
  assert.ok(network.segmentMs(0, 1, 940) >= 200, 'the second waits for the first');
  let arrived = 0;
  for (let i = 0; i < 10; i++) network.datagram(0, 1, 940, () => (arrived += 1));
  timeline.runUntil(10_000);
  assert.ok(arrived < 3, `${arrived} arrived`);
});

it('makes loss cost time on a connection', () => {
  const { network } = connected({ lossRatio: 0.5 });
  const slow = Array.from({ length: 100 }, () => network.segmentMs(0, 1, 10)).filter((ms) => ms >= 200);
  assert.ok(slow.length > 25 && slow.length < 75);
});

it('changes and restores single conditions, and heals all', () => {
  const { network, send } = connected();
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
