/** A fake ContainerLog of one activation: the test ends its commits, with or without an acknowledgement. */
import assert from 'node:assert/strict';
import { type Done, type Outcome, success } from '../../src/base/errors.ts';
import { type Fence, fenceOf } from '../../src/base/fence.ts';
import type { StoreWrite } from '../../src/base/ports.ts';
import type { ContainerChange, ContainerLog } from '../../src/containers/contract.ts';
import type { Timeline } from '../../src/simulation/engine/timeline.ts';

type Commit = { readonly writes: readonly StoreWrite[]; readonly done: Done<void> };

/** The test around the log: its time, its disk, and whether commits complete by themselves. */
export type ContainerLogTest = {
  readonly timeline: Timeline;
  readonly commitsEnd: boolean;
  disk(container: number): Map<string, Uint8Array>;
};

export class FakeContainerLog implements ContainerLog {
  readonly commits: Commit[] = [];
  readonly lost: (reason: string) => void;
  readonly fence: Fence;
  isClosed = false;
  readonly #test: ContainerLogTest;
  readonly #container: number;

  constructor(test: ContainerLogTest, change: ContainerChange, lost: (reason: string) => void) {
    this.#test = test;
    this.#container = change.container;
    this.fence = change.record?.fence ?? fenceOf(0, 0);
    this.lost = lost;
  }

  commit(writes: readonly StoreWrite[], done: Done<void>): void {
    assert(!this.isClosed, 'a closed log accepts no commit');
    this.commits.push({ writes, done });
    if (this.#test.commitsEnd) this.#test.timeline.after(0, () => this.end());
  }

  close(done: Done<void>): void {
    this.isClosed = true;
    this.#test.timeline.after(0, () => done(success(undefined)));
  }

  /** Ends the oldest commit. */
  end(outcome: Outcome<void> = success(undefined)): void {
    const commit = this.commits.shift();
    if (commit === undefined) return;
    if (outcome.ok) this.#apply(commit);
    commit.done(outcome);
  }

  /** The oldest commits reach the disk without an acknowledgement. */
  applyUnacknowledged(count: number): void {
    for (const commit of this.commits.splice(0).slice(0, count)) this.#apply(commit);
  }

  #apply({ writes }: Commit): void {
    const disk = this.#test.disk(this.#container);
    for (const { key, value } of writes) {
      if (value === null) disk.delete(key);
      else disk.set(key, value);
    }
  }
}
