import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../../base/ports.ts';
import { Shutdown } from './shutdown.ts';

const clock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  schedule: (delayMs, run) => {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};

test('shutdown steps run one after another in the declared order, whatever the order of opening', async () => {
  const shutdown = new Shutdown(clock, ['goodbye', 'http', 'store']);
  const ran: string[] = [];
  const step = (name: string) => async (): Promise<void> => {
    ran.push(`${name} begins`);
    await new Promise(setImmediate);
    ran.push(`${name} ends`);
  };
  shutdown.add('store', step('store'));
  shutdown.add('goodbye', step('goodbye'));
  assert.deepEqual(await shutdown.run(1_000), { failed: [], stuck: [] });
  assert.deepEqual(ran, ['goodbye begins', 'goodbye ends', 'store begins', 'store ends']);
});

test('a shutdown step that fails or hangs is named, and the others still run', async () => {
  const shutdown = new Shutdown(clock, ['a', 'b', 'c', 'd']);
  const error = new Error('broken');
  let closed = false;
  shutdown.add('a', () => Promise.reject(error));
  shutdown.add('b', () => new Promise(() => {}));
  shutdown.add('c', async () => {
    closed = true;
  });
  shutdown.add('d', () => Promise.reject(error));
  const report = await shutdown.run(20);
  assert.deepEqual(
    report.failed.map(({ step }) => step),
    ['a', 'd'],
  );
  assert.deepEqual(report.stuck, ['b']);
  assert.ok(closed);
});

test('a second call waits for the first, and a late resource is closed at once', async () => {
  const shutdown = new Shutdown(clock, ['a']);
  let closes = 0;
  shutdown.add('a', async () => {
    closes += 1;
  });
  const [first, second] = await Promise.all([shutdown.run(1_000), shutdown.run(1_000)]);
  assert.equal(first, second);
  assert.equal(closes, 1);
  const late = async (): Promise<void> => {
    closes += 1;
  };
  assert.throws(() => shutdown.add('a', late), /during the shutdown/);
  assert.equal(closes, 2);
});
