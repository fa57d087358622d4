/**
 * Order of snapshot steps under writes: page, commits, ..., install. A page is read after the commits before it were
 * sent, so the replica ends exact.
 *
 * Pages of the state are read one after the other from the disk, with the commits made meanwhile in between:
 *
 *   page, commits, page, commits, ... last page, commits, install
 *
 * A page is never older than the commits sent before it: only commits that are on our disk are sent, and a page is read
 * after that. Writes are absolute, so the copy is exact as soon as it has every commit that any page could have shown.
 */
import type { StateEntry } from '../contract.ts';

export class SnapshotSender {
  readonly snapshot: number;
  /** Of the next request. */
  step = 0;
  /** Commits up to here are in the copy. */
  sent: number;
  /** The key before the next page; undefined before the first. */
  cursor: string | undefined;
  #isWhole = false;
  /** No page has shown a later commit than this. */
  #shown = -1;
  #isPageNext = true;

  constructor(snapshot: number, durable: number) {
    this.snapshot = snapshot;
    this.sent = durable;
  }

  /** `durable`: the last commit on our disk. */
  next(durable: number): 'page' | 'commits' | 'wait' {
    const hasCommits = durable > this.sent;
    if (!this.#isWhole) return this.#isPageNext || !hasCommits ? 'page' : 'commits';
    return hasCommits ? 'commits' : 'wait';
  }

  /** `issued`: the last commit that was on its way to the disk when the page had been read. True: install with it. */
  pageSent(entries: readonly StateEntry[], isLast: boolean, issued: number): boolean {
    this.step += 1;
    this.#isPageNext = false;
    this.#shown = issued;
    this.cursor = entries.at(-1)?.key ?? this.cursor;
    this.#isWhole = isLast;
    return this.#isExact;
  }

  /** True: install with it. */
  commitsSent(last: number): boolean {
    this.step += 1;
    this.#isPageNext = true;
    this.sent = last;
    return this.#isExact;
  }

  get #isExact(): boolean {
    return this.#isWhole && this.sent >= this.#shown;
  }
}
