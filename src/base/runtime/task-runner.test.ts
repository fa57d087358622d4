import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isRemusterError } from '../errors.ts';
import type { Clock } from '../ports.ts';
import { TaskRunner } from './task-runner.ts';

/** A clock whose timers the test expires. */
function manualClock(): { clock: Clock; expireAll: () => void } {
  const timers: (() => void)[] = [];
  const clock: Clock = { nowMs: () => 0, wallMs: () => 0, schedule: (_delayMs, run) => (timers.push(run), () => {}) };
  return { clock, expireAll: () => timers.splice(0).forEach((run) => run()) };
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve());
  });
}

function runner(tasksMax?: number) {
  const failures: string[] = [];
  const { clock, expireAll } = manualClock();
  const options = { clock, onTaskFailed: (name: string, error: unknown) => failures.push(`${name}: ${String(error)}`) };
  return { tasks: new TaskRunner(tasksMax === undefined ? options : { ...options, tasksMax }), failures, expireAll };
}

describe('task runner', () => {
  it('lists running tasks, and cancels by token', async () => {
    const { tasks, failures } = runner();
    const cleanup = tasks.run('cleanup', untilAborted);
    tasks.run('sync', untilAborted);
    assert.deepEqual(
      tasks.running.map((token) => token.name),
      ['cleanup', 'sync'],
    );
    await tasks.cancel(cleanup);
    await tasks.cancel(cleanup);
    assert.deepEqual(
      tasks.running.map((token) => token.name),
      ['sync'],
    );
    assert.deepEqual(failures, []);
  });

  it('reports a task that throws once, and keeps the others running', async () => {
    const { tasks, failures } = runner();
    tasks.run('steady', untilAborted);
    await tasks.cancel(tasks.run('other', async () => {}));
    const broken = tasks.run('broken', async () => {
      throw new Error('boom');
    });
    await new Promise(setImmediate);
    assert.deepEqual(failures, ['broken: Error: boom']);
    await tasks.cancel(broken);
    assert.deepEqual(
      tasks.running.map((token) => token.name),
      ['steady'],
    );
  });

  it('waits for all tasks at stop, and starts none afterwards', async () => {
    const { tasks } = runner();
    let ended = false;
    tasks.run('slow to end', async (signal) => {
      await untilAborted(signal);
      await new Promise(setImmediate);
      ended = true;
    });
    await new Promise(setImmediate);
    assert.deepEqual(await tasks.stop(1000), { stuck: [] });
    assert.ok(ended);
    assert.throws(
      () => tasks.run('late', untilAborted),
      (error) => isRemusterError(error, 'CANCELLED'),
    );
  });

  it('names tasks that do not end within the deadline', async () => {
    const { tasks, expireAll } = runner();
    tasks.run('stuck', () => new Promise(() => {}));
    await new Promise(setImmediate);
    const stopping = tasks.stop(1000);
    expireAll();
    assert.deepEqual(await stopping, { stuck: ['stuck'] });
  });

  it('never starts a task that was cancelled before its turn', async () => {
    const { tasks } = runner();
    let started = false;
    await tasks.cancel(
      tasks.run('too late', async () => {
        started = true;
      }),
    );
    assert.equal(started, false);
  });

  it('rejects a task beyond its bound', () => {
    const { tasks } = runner(1);
    tasks.run('one', untilAborted);
    assert.throws(
      () => tasks.run('two', untilAborted),
      (error) => isRemusterError(error, 'CAPACITY'),
    );
  });
});
