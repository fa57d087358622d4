import assert from 'node:assert/strict';
import { it } from 'node:test';
import { SimulatedProcess } from './simulated-process.ts';
import { Timeline } from './timeline.ts';

function startProcess(): {
  timeline: Timeline;
  process: SimulatedProcess;
  threw: unknown[];
  ran: string[];
  note: (label: string) => () => void;
} {
  const timeline = new Timeline();
  const threw: unknown[] = [];
  const process = new SimulatedProcess(timeline, { threw: (error) => threw.push(error) });
  const ran: string[] = [];
  const note = (label: string) => () => void ran.push(`${label}@${timeline.nowMs}`);
  return { timeline, process, threw, ran, note };
}

it('a paused process defers its callbacks and runs them in order when it wakes', () => {
  const { timeline, process, ran, note } = startProcess();
  process.after(1, note('before'));
  process.after(5, note('during'));
  process.after(9, note('later'));
  process.after(12, note('at waking'));
  process.after(20, note('after'));
  timeline.runUntil(2);
  process.pause(10);
  timeline.runUntil(11);
  assert.deepEqual(ran, ['before@1']);
  assert.equal(process.deferredCount, 2);
  timeline.runUntil(30);
  assert.deepEqual(ran, ['before@1', 'during@12', 'later@12', 'at waking@12', 'after@20']);
  assert.equal(process.pausedMs, 10);
});

it('a process wakes when it is resumed, and a longer pause outlasts a shorter one', () => {
  const { timeline, process, ran, note } = startProcess();
  process.pause(100);
  process.pause(5);
  process.after(1, note('x'));
  timeline.runUntil(50);
  assert.deepEqual(ran, []);
  process.resume();
  timeline.runUntil(60);
  assert.deepEqual(ran, ['x@50']);
});

it('a process runs no callback after its exit, and its children exit with it', () => {
  const { timeline, process, ran, note } = startProcess();
  const child = process.spawn({ threw: () => undefined });
  process.after(5, note('mine'));
  child.after(5, note('of the child'));
  process.onExit(note('ended'));
  process.pause(3);
  process.run(note('postponed'));
  timeline.runUntil(1);
  process.exit();
  process.exit();
  assert.equal(child.alive, false);
  timeline.runUntil(10);
  assert.deepEqual(ran, ['ended@1']);
});

it('a cancelled timer that was deferred does not run', () => {
  const { timeline, process, ran, note } = startProcess();
  const cancel = process.after(1, note('cancelled'));
  process.pause(5);
  timeline.runUntil(3);
  cancel();
  timeline.runUntil(10);
  assert.deepEqual(ran, []);
});

it('a process reports what its code throws, and goes on', () => {
  const { timeline, process, threw, ran, note } = startProcess();
  process.after(1, () => {
    throw new Error('mistake');
  });
  process.after(2, note('next'));
  timeline.runUntil(3);
  assert.equal(String(threw[0]), 'Error: mistake');
  assert.deepEqual(ran, ['next@2']);
});
