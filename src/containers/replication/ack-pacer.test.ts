/** How acknowledgements are spread over turns. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AckPacer } from './ack-pacer.ts';

describe('an ack pacer', () => {
  test('acknowledges a bounded number per turn, in order of containers, and skips removed ones', () => {
    const scheduled: (() => void)[] = [];
    const clock = { schedule: (_delayMs: number, run: () => void) => (scheduled.push(run), () => {}) };
    const wanted = new Map([
      ['a', 300],
      ['b', 250],
      ['gone', 20],
    ]);
    const log: string[] = [];
    const pacer = new AckPacer<string>(clock, (name) => acknowledge(name));
    function acknowledge(name: string): void {
      const before = wanted.get(name)!;
      let left = before;
      while (left > 0 && pacer.tryAck(name)) left -= 1;
      wanted.set(name, left);
      log.push(`${name} ${before - left}`);
    }
    for (const name of wanted.keys()) acknowledge(name);
    pacer.remove('gone');
    while (scheduled.length > 0) {
      log.push('next turn');
      scheduled.shift()!();
    }
    const first = ['a 256', 'b 0', 'gone 0'];
    assert.deepEqual(log, [...first, 'next turn', 'a 44', 'b 212', 'next turn', 'b 38', 'next turn']);
  });
});
