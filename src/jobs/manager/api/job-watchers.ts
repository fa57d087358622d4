/**
 * Long-polls job changes: each waiter gets the full state once, at a newer version or at its deadline. Bounded; a slow
 * watcher delays no other.
 */
import { RemusterError } from '../../../base/errors.ts';
import type { ManagedJob } from '../model/managed-job.ts';

/** `afterVersion` is infinite for those who want to know of the end only. */
type Watcher = { readonly afterVersion: number; readonly untilMs: number; readonly tell: () => void };

const watchersMax = 5_000;
const versionsInTerm = 2 ** 28;

export class JobWatchers {
  readonly #watchers = new Map<ManagedJob, Watcher[]>();
  #count = 0;

  get isFull(): boolean {
    return this.#count >= watchersMax;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** Later than all that earlier leaders have told. */
  static firstVersion(term: number): number {
    return (term % 2 ** 24) * versionsInTerm + 1;
  }

  wait(job: ManagedJob, afterVersion: number, untilMs: number, tell: () => void): void {
    // What changed while nobody looked is one change.
    if (job.hasUnpublishedChange && !this.#watchers.has(job)) nextVersion(job);
    if (job.version > afterVersion) return tell();
    if (this.isFull) throw new RemusterError('CAPACITY', `${watchersMax} others watch jobs already`);
    const list = this.#watchers.get(job);
    const watcher = { afterVersion, untilMs, tell };
    if (list === undefined) this.#watchers.set(job, [watcher]);
    else list.push(watcher);
    this.#count += 1;
  }

  /** At most so often as a watcher should hear. */
  tick(nowMs: number): void {
    for (const [job, list] of this.#watchers) {
      if (job.hasUnpublishedChange) nextVersion(job);
      this.#tell(job, list, nowMs);
    }
  }

  /** It is over, and everybody may know. */
  notifyEnd(job: ManagedJob): void {
    const list = this.#watchers.get(job);
    if (list === undefined) return;
    nextVersion(job);
    this.#tell(job, list, Infinity);
  }

  clear(): void {
    this.#watchers.clear();
    this.#count = 0;
  }

  #tell(job: ManagedJob, list: readonly Watcher[], nowMs: number): void {
    const left = list.filter(({ afterVersion, untilMs, tell }) => {
      if (job.version <= afterVersion && nowMs < untilMs) return true;
      tell();
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
