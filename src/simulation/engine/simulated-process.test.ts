import assert from 'node:assert/strict';
import { it } from 'node:test';
import { SimulatedProcess } from './simulated-process.ts';
import { Timeline } from './timeline.ts';

function alive(): {
  timeline: Timeline;
  life: SimulatedProcess;
  threw: unknown[];
  ran: string[];
  note: (label: string) => () => void;
} {
  const timeline = new Timeline();
  const threw: unknown[] = [];
  const life = new SimulatedProcess(timeline, { threw: (error) => threw.push(error) });
  const ran: string[] = [];
  const note = (label: string) => () => void ran.push(`${label}@${timeline.nowMs}`);
  return { timeline, life, threw, ran, note };
}

it('postpones everything while it is stalled, and runs it in order when it wakes', () => {
  const { timeline, life, ran, note } = alive();
  life.after(1, note('before'));
  life.after(5, note('during'));
  life.after(9, note('later'));
  life.after(12, note('at waking'));
  life.after(20, note('after'));
  timeline.runUntil(2);
  life.pause(10);
  timeline.runUntil(11);
  assert.deepEqual(ran, ['before@1']);
  assert.equal(life.deferredCount, 2);
  timeline.runUntil(30);
  assert.deepEqual(ran, ['before@1', 'during@12', 'later@12', 'at waking@12', 'after@20']);
  assert.equal(life.pausedMs, 10);
});

it('wakes when it is resumed, and a longer stall outlasts a shorter one', () => {
  const { timeline, life, ran, note } = alive();
  life.pause(100);
  life.pause(5);
  life.after(1, note('x'));
  timeline.runUntil(50);
  assert.deepEqual(ran, []);
  life.resume();
  timeline.runUntil(60);
  assert.deepEqual(ran, ['x@50']);
});

it('hears nothing after its end, and its children end with it', () => {
  const { timeline, life, ran, note } = alive();
  const child = life.spawn({ threw: () => undefined });
  life.after(5, note('mine'));
  child.after(5, note('of the child'));
  life.onExit(note('ended'));
  life.pause(3);
  life.run(note('postponed'));
  timeline.runUntil(1);
  life.exit();
  life.exit();
  assert.equal(child.alive, false);
  timeline.runUntil(10);
  assert.deepEqual(ran, ['ended@1']);
});

it('does not let a cancelled timer run that was postponed', () => {
  const { timeline, life, ran, note } = alive();
  const cancel = life.after(1, note('cancelled'));
  life.pause(5);
  timeline.runUntil(3);
  cancel();
  timeline.runUntil(10);
  assert.deepEqual(ran, []);
});

it('reports what its code throws, and goes on', () => {
  const { timeline, life, threw, ran, note } = alive();
  life.after(1, () => {
    throw new Error('mistake');
  });
  life.after(2, note('next'));
  timeline.runUntil(3);
  assert.equal(String(threw[0]), 'Error: mistake');
  assert.deepEqual(ran, ['next@2']);
});
