/**
 * Owns the knowledge of which bundles are stored. Deletes a bundle that no job or schedule has referenced for 10
 * minutes, marker first, so that a bundle never looks stored while its parts are missing.
 */
import { type Outcome, success } from '../../../base/errors.ts';
import { type KeyRange, type RangeResult, onlyKey } from '../../../base/registry.ts';
import { jobKeys, jobRanges, lastKeySegment } from '../../job-keys.ts';
import type { ManagerState } from '../state/manager-state.ts';

type Read = (range: KeyRange, limit: number, done: (outcome: Outcome<RangeResult>) => void) => void;

const sweepMs = 60_000;
/** A client stores a bundle before it submits the job that names it. */
const unusedMs = 600_000;
const markersMax = 1_000;

export class BundleCatalog {
  readonly #state: ManagerState;
  readonly #read: Read;
  /** Stored bundles, with the time when each was first seen or last referenced. */
  readonly #known = new Map<string, number>();
  #sweepAtMs = 0;

  constructor(state: ManagerState, read: Read) {
    this.#state = state;
    this.#read = read;
  }

  restore(markers: ReadonlyMap<string, Uint8Array>): void {
    for (const sha256 of markers.keys()) this.#known.set(sha256, this.#state.nowMs);
    this.#sweepAtMs = this.#state.nowMs + sweepMs;
  }

  isStored(sha256: string, done: (outcome: Outcome<boolean>) => void): void {
    if (this.#known.has(sha256)) {
      this.#known.set(sha256, this.#state.nowMs);
      return done(success(true));
    }
    this.#read(onlyKey(jobKeys.bundleMarker(sha256)), 1, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const isStored = outcome.value.entries.length > 0;
      if (isStored) this.#known.set(sha256, this.#state.nowMs);
      done(success(isStored));
    });
  }

  clear(): void {
    this.#known.clear();
  }

  /** `scheduledRequests`: the requests of all schedules, as JSON. */
  sweep(scheduledRequests: Iterable<string>): void {
    const { nowMs } = this.#state;
    if (nowMs < this.#sweepAtMs) return;
    this.#sweepAtMs = nowMs + sweepMs;
    // Adds bundles that no job has named yet.
    this.#read(jobRanges.bundleMarkers, markersMax, (outcome) => {
      if (!outcome.ok) return;
      for (const { key } of outcome.value.entries) {
        const sha256 = lastKeySegment(key);
        if (!this.#known.has(sha256)) this.#known.set(sha256, nowMs);
      }
    });
    const used = new Set<string>();
    for (const { request } of this.#state.jobs.values()) used.add(request.bundle);
    for (const text of scheduledRequests) used.add((JSON.parse(text) as { readonly bundle: string }).bundle);
    for (const [sha256, seenMs] of this.#known) {
      if (used.has(sha256) || nowMs < seenMs + unusedMs) continue;
      this.#known.delete(sha256);
      this.#state.commits.remove(jobKeys.bundleMarker(sha256));
      this.#state.commits.removeRange(jobRanges.bundleParts(sha256));
    }
  }
}
