/**
 * Which code is stored. The leader reads the mark of a bundle when a job first names it, and knows it from then on. Code
 * that no job and no schedule names any more is removed after a while.
 */
import { type Outcome, success } from '../../base/errors.ts';
import { type KeyRange, type RangeResult, onlyKey } from '../../base/registry.ts';
import { jobKeys } from '../keys.ts';
import type { Office } from './office.ts';

type Read = (range: KeyRange, limit: number, done: (outcome: Outcome<RangeResult>) => void) => void;

export class Bundles {
  readonly #office: Office;
  readonly #read: Read;
  /** And when it was last named by a new job. */
  readonly #known = new Map<string, number>();

  constructor(office: Office, read: Read) {
    this.#office = office;
    this.#read = read;
  }

  restore(marks: ReadonlyMap<string, Uint8Array>): void {
    for (const sha256 of marks.keys()) this.#known.set(sha256, this.#office.nowMs);
  }

  knows(sha256: string, done: (outcome: Outcome<boolean>) => void): void {
    if (this.#known.has(sha256)) return done(success(true));
    this.#read(onlyKey(jobKeys.bundleMark(sha256)), 1, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const isThere = outcome.value.entries.length > 0;
      if (isThere) this.#known.set(sha256, this.#office.nowMs);
      done(success(isThere));
    });
  }

  clear(): void {
    this.#known.clear();
  }
}
