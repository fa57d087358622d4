/**
 * Owns the long polls for job changes. Each watcher is notified once, at a newer version or at its deadline. Bounded; a
 * slow watcher delays no other.
 */
import { RemusterError } from '../../../base/errors.ts';
import type { ManagedJob } from '../model/managed-job.ts';

/** `afterVersion` is infinite for a watcher that waits for the end only. */
type Watcher = { readonly afterVersion: number; readonly untilMs: number; readonly notify: () => void };

const watchersMax = 5_000;

export class JobWatchers {
  readonly #watchers = new Map<ManagedJob, Watcher[]>();
  #count = 0;

  get isFull(): boolean {
    return this.#count >= watchersMax;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  wait(job: ManagedJob, afterVersion: number, untilMs: number, notify: () => void): void {
    // All changes without a watcher count as one.
    if (job.hasUnpublishedChange && !this.#watchers.has(job)) nextVersion(job);
    if (job.version > afterVersion) return notify();
    if (this.isFull) throw new RemusterError('CAPACITY', `${watchersMax} callers watch jobs: retry later`);
    const list = this.#watchers.get(job);
    const watcher = { afterVersion, untilMs, notify };
    if (list === undefined) this.#watchers.set(job, [watcher]);
    else list.push(watcher);
    this.#count += 1;
  }

  /** Called by the periodic work: bounds how often a watcher is notified. */
  tick(nowMs: number): void {
    for (const [job, list] of this.#watchers) {
      if (job.hasUnpublishedChange) nextVersion(job);
      this.#notify(job, list, nowMs);
    }
  }

  /** The end of the job is recorded: notifies its watchers at once. */
  notifyEnd(job: ManagedJob): void {
    const list = this.#watchers.get(job);
    if (list === undefined) return;
    nextVersion(job);
    this.#notify(job, list, Infinity);
  }

  clear(): void {
    this.#watchers.clear();
    this.#count = 0;
  }

  #notify(job: ManagedJob, list: readonly Watcher[], nowMs: number): void {
    const left = list.filter(({ afterVersion, untilMs, notify }) => {
      if (job.version <= afterVersion && nowMs < untilMs) return true;
      notify();
      return false;
    });
    this.#count -= list.length - left.length;
    if (left.length === 0) this.#watchers.delete(job);
    else this.#watchers.set(job, left);
  }
}

function nextVersion(job: ManagedJob): void {
  job.version += 1;
  job.hasUnpublishedChange = false;
}
