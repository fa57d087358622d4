import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, failure, success } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import type { JobMessage } from '../../messages/jobs.ts';
import { WorkerLease } from './worker-lease.ts';

const leaseMs = 1_000;

/** One who is heard once, and then never again. Its clock can jump, as that of a process which stood still does. */
class Heard {
  readonly ends: { readonly atMs: number; readonly withinMs: number }[] = [];
  #nowMs = 0;
  #timers: { readonly atMs: number; readonly run: () => void }[] = [];
  #answers: Outcome<JobMessage>[] = [success({ kind: 'workerHeartbeatReply', term: 1, leaseMs, stop: [] })];

  constructor(next: Outcome<JobMessage> = failure('UNREACHABLE')) {
    this.#answers.push(next);
    const report = { kind: 'workerHeartbeat', generation: 1, coresTotal: 1, attempts: [] } as const;
    void new WorkerLease(
      {
        clock: {
          nowMs: () => this.#nowMs,
          wallMs: () => this.#nowMs,
          schedule: (delayMs, run) => {
            const timer = { atMs: this.#nowMs + delayMs, run };
            this.#timers.push(timer);
            return () => void (this.#timers = this.#timers.filter((other) => other !== timer));
          },
        },
        random: new Random('lease'),
        leader: () => ({ id: 'm1', name: 'm1', host: '127.0.0.1', port: 1 }) as never,
        request: (_to, _message, _timeoutMs, done) => done(this.#answers.shift() ?? failure('UNREACHABLE')),
        heartbeat: () => report as never,
        stop: () => undefined,
        granted: () => undefined,
        expired: (withinMs) => this.ends.push({ atMs: this.#nowMs, withinMs }),
      },
      leaseMs,
    );
  }

  /** In steps of a millisecond. */
  run(durationMs: number): void {
    for (const endMs = this.#nowMs + durationMs; this.#nowMs < endMs;) this.standStill(1);
  }

  standStill(durationMs: number): void {
    this.#nowMs += durationMs;
    for (const timer of this.#timers.filter(({ atMs }) => atMs <= this.#nowMs)) {
      if (!this.#timers.includes(timer)) continue;
      this.#timers = this.#timers.filter((other) => other !== timer);
      timer.run();
    }
  }
}

test('who is not heard again stops at 0.7 of the lease, and has a tenth of it to end', () => {
  const worker = new Heard();
  worker.run(2 * leaseMs);
  assert.deepEqual(worker.ends, [{ atMs: 701, withinMs: 100 }]);
});

test('who stood still has only what is left of that time, or none', () => {
  const worker = new Heard();
  worker.run(10);
  worker.standStill(12 * leaseMs);
  assert.deepEqual(worker.ends, [{ atMs: 12_010, withinMs: 0 }]);
});

test('who is fenced stops at once, and hears it once', () => {
  const worker = new Heard(failure('FENCED'));
  worker.run(2 * leaseMs);
  assert.deepEqual(worker.ends, [{ atMs: 251, withinMs: 100 }]);
});
