/** Knows which bundles are stored and deletes those that no job or schedule references for 10 minutes, marker first. */
import { type Outcome, success } from '../../../base/errors.ts';
import { type KeyRange, type RangeResult, onlyKey } from '../../../base/registry.ts';
import { jobKeys, jobRanges, lastKeySegment } from '../../job-keys.ts';
import type { ManagerState } from '../state/manager-state.ts';

type Read = (range: KeyRange, limit: number, done: (outcome: Outcome<RangeResult>) => void) => void;

const sweepMs = 60_000;
/** Code is stored before the job that names it is submitted. */
const unusedMs = 600_000;
const marksMax = 1_000;

export class BundleCatalog {
  readonly #office: ManagerState;
  readonly #read: Read;
  /** And when it was first seen, or last named. */
  readonly #known = new Map<string, number>();
  #sweepAtMs = 0;

  constructor(office: ManagerState, read: Read) {
    this.#office = office;
    this.#read = read;
  }

  restore(marks: ReadonlyMap<string, Uint8Array>): void {
    for (const sha256 of marks.keys()) this.#known.set(sha256, this.#office.nowMs);
    this.#sweepAtMs = this.#office.nowMs + sweepMs;
  }

  isStored(sha256: string, done: (outcome: Outcome<boolean>) => void): void {
    if (this.#known.has(sha256)) {
      this.#known.set(sha256, this.#office.nowMs);
      return done(success(true));
    }
    this.#read(onlyKey(jobKeys.bundleMarker(sha256)), 1, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const isThere = outcome.value.entries.length > 0;
      if (isThere) this.#known.set(sha256, this.#office.nowMs);
      done(success(isThere));
    });
  }

  clear(): void {
    this.#known.clear();
  }

  /** `words`: requests of schedules. */
  sweep(words: Iterable<string>): void {
    const { nowMs } = this.#office;
    if (nowMs < this.#sweepAtMs) return;
    this.#sweepAtMs = nowMs + sweepMs;
    // Those that were stored, and that nobody has named yet.
    this.#read(jobRanges.bundleMarkers, marksMax, (outcome) => {
      if (!outcome.ok) return;
      for (const { key } of outcome.value.entries) {
        const sha256 = lastKeySegment(key);
        if (!this.#known.has(sha256)) this.#known.set(sha256, nowMs);
      }
    });
    const used = new Set<string>();
    for (const { request } of this.#office.jobs.values()) used.add(request.bundle);
    for (const text of words) used.add((JSON.parse(text) as { readonly bundle: string }).bundle);
    for (const [sha256, seenMs] of this.#known) {
      if (used.has(sha256) || nowMs < seenMs + unusedMs) continue;
      this.#known.delete(sha256);
      this.#office.commits.remove(jobKeys.bundleMarker(sha256));
      this.#office.commits.removeRange(jobRanges.bundleParts(sha256));
    }
  }
}
