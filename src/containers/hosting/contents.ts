/**
 * Everything that an open container holds in memory and on disks: its state, its timers, and which calls have run. One
 * call changes all three together, through `CallChanges`, or none of them.
 */
import { RemusterError } from '../../base/errors.ts';
import type { StoreWrite } from '../../base/ports.ts';
import type { StateEntry } from '../contract.ts';
import { ContainerState } from './container-state.ts';
import type { HostingLimits } from './limits.ts';
import { rowKinds } from './rows.ts';
import { RunOnce } from './run-once.ts';
import { ReadingView, WritingView } from './state-view.ts';
import { TimerChanges, TimerTable } from './timer-table.ts';

export class Contents {
  readonly state = new ContainerState();
  readonly timers = new TimerTable();
  readonly once: RunOnce;
  /** For all readonly methods. */
  readonly view = new ReadingView(this.state);

  constructor(limits: HostingLimits) {
    this.once = new RunOnce(limits);
  }

  /** Throws MALFORMED when a row cannot be what was written. */
  load(entries: readonly StateEntry[], nowMs: number): void {
    for (const { key, value } of entries) {
      const kind = key[0];
      if (kind === rowKinds.state) this.state.set(key.slice(1), value);
      else if (kind === rowKinds.timer) this.timers.load(key.slice(1), value);
      else if (kind === rowKinds.once) this.once.load(key, value, nowMs);
      else throw new RemusterError('MALFORMED', `a row "${key.slice(0, 40)}" is of no known kind`);
    }
    this.once.loaded();
  }
}

/** What one call writes, until it has returned. */
export class CallChanges {
  readonly state: WritingView;
  readonly timers: TimerChanges;

  constructor(contents: Contents, limits: HostingLimits, nowWallMs: () => number) {
    this.state = new WritingView(contents.state, limits);
    this.timers = new TimerChanges(contents.timers, limits, nowWallMs);
  }

  /** The method cannot write any more. */
  end(): void {
    this.state.end();
    this.timers.end();
  }

  apply(): void {
    this.state.apply();
    this.timers.apply();
  }

  /** Of everything that it wrote, in a commit. */
  get writtenBytes(): number {
    return this.state.writtenBytes + this.timers.writtenBytes;
  }

  collectRows(rows: StoreWrite[]): void {
    this.state.collectRows(rows);
    this.timers.collectRows(rows);
  }
}
