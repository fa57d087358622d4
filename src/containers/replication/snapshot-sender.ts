/**
 * The order of snapshot steps while writes go on: pages of the state, with the commits of the meantime in between.
 *
 *   page, commits, page, commits, ... last page, commits, install
 *
 * A page is read after the commits before it are on the owner's disk, so it is never older than they are. Writes are
 * absolute, so the replica equals the owner once it has every commit that any page may contain.
 */
import type { StateEntry } from '../contract.ts';

export class SnapshotSender {
  readonly snapshot: number;
  /** Number of the next step. */
  step = 0;
  /** The last commit sent in this snapshot. */
  sent: number;
  /** The key before the next page; undefined before the first. */
  cursor: string | undefined;
  #isWhole = false;
  /** No page contains a later commit. */
  #newestInPages = -1;
  #isPageNext = true;

  constructor(snapshot: number, durable: number) {
    this.snapshot = snapshot;
    this.sent = durable;
  }

  /** `durable`: the last commit on the owner's disk. */
  next(durable: number): 'page' | 'commits' | 'wait' {
    const hasCommits = durable > this.sent;
    if (!this.#isWhole) return this.#isPageNext || !hasCommits ? 'page' : 'commits';
    return hasCommits ? 'commits' : 'wait';
  }

  /** `issued`: the last commit given to the disk when the page had been read. True: this step installs the snapshot. */
  pageSent(entries: readonly StateEntry[], isLast: boolean, issued: number): boolean {
    this.step += 1;
    this.#isPageNext = false;
    this.#newestInPages = issued;
    this.cursor = entries.at(-1)?.key ?? this.cursor;
    this.#isWhole = isLast;
    return this.#isExact;
  }

  /** True: this step installs the snapshot. */
  commitsSent(last: number): boolean {
    this.step += 1;
    this.#isPageNext = true;
    this.sent = last;
    return this.#isExact;
  }

  get #isExact(): boolean {
    return this.#isWhole && this.sent >= this.#newestInPages;
  }
}
