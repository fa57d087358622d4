import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, failure, success } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import type { JobMessage } from '../../messages/jobs.ts';
import { WorkerLease } from './worker-lease.ts';

const leaseMs = 1_000;

/** A lease that is granted once. The clock can jump, as after a pause of the process. */
class GrantedOnce {
  readonly expiries: { readonly atMs: number; readonly withinMs: number }[] = [];
  #nowMs = 0;
  #timers: { readonly atMs: number; readonly run: () => void }[] = [];
  #replies: Outcome<JobMessage>[] = [success({ kind: 'workerHeartbeatReply', term: 1, leaseMs, stop: [] })];

  constructor(next: Outcome<JobMessage> = failure('UNREACHABLE')) {
    this.#replies.push(next);
    const heartbeat = { kind: 'workerHeartbeat', generation: 1, coresTotal: 1, attempts: [] } as const;
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
        request: (_to, _message, _timeoutMs, done) => done(this.#replies.shift() ?? failure('UNREACHABLE')),
        heartbeat: () => heartbeat as never,
        stop: () => undefined,
        granted: () => undefined,
        expired: (withinMs) => this.expiries.push({ atMs: this.#nowMs, withinMs }),
      },
      leaseMs,
    );
  }

  /** Advances in steps of a millisecond. */
  run(durationMs: number): void {
    for (const endMs = this.#nowMs + durationMs; this.#nowMs < endMs;) this.pause(1);
  }

  pause(durationMs: number): void {
    this.#nowMs += durationMs;
    for (const timer of this.#timers.filter(({ atMs }) => atMs <= this.#nowMs)) {
      if (!this.#timers.includes(timer)) continue;
      this.#timers = this.#timers.filter((other) => other !== timer);
      timer.run();
    }
  }
}

test('a lease that is not renewed expires at 0.7 of its length and leaves a tenth of it to stop', () => {
  const worker = new GrantedOnce();
  worker.run(2 * leaseMs);
  assert.deepEqual(worker.expiries, [{ atMs: 701, withinMs: 100 }]);
});

test('after a pause of the node only the rest of that time is left, or none', () => {
  const worker = new GrantedOnce();
  worker.run(10);
  worker.pause(12 * leaseMs);
  assert.deepEqual(worker.expiries, [{ atMs: 12_010, withinMs: 0 }]);
});

test('a fenced worker loses its lease at once, and once', () => {
  const worker = new GrantedOnce(failure('FENCED'));
  worker.run(2 * leaseMs);
  assert.deepEqual(worker.expiries, [{ atMs: 251, withinMs: 100 }]);
});
