/** State, timers and dedup table of an open container. One call changes all three together, or none. */
import { RemusterError } from '../../../base/errors.ts';
import type { StoreWrite } from '../../../base/ports.ts';
import type { StateEntry } from '../../contract.ts';
import { ContainerState } from './container-state.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import { rowKinds } from './state-rows.ts';
import { ExactlyOnce } from './exactly-once.ts';
import { ReadStateView, WriteStateView } from './state-view.ts';
import { TimerChanges, TimerTable } from './timer-table.ts';

export class ContainerContents {
  readonly state = new ContainerState();
  readonly timers = new TimerTable();
  readonly dedup: ExactlyOnce;
  /** The view of all readonly methods. */
  readonly view = new ReadStateView(this.state);

  constructor(limits: HostingLimits) {
    this.dedup = new ExactlyOnce(limits);
  }

  /** Throws MALFORMED for a row that this version cannot have written. */
  load(entries: readonly StateEntry[], nowMs: number): void {
    for (const { key, value } of entries) {
      const kind = key[0];
      if (kind === rowKinds.state) this.state.set(key.slice(1), value);
      else if (kind === rowKinds.timer) this.timers.load(key.slice(1), value);
      else if (kind === rowKinds.dedup) this.dedup.load(key, value, nowMs);
      else throw new RemusterError('MALFORMED', `the row "${key.slice(0, 40)}" has an unknown kind`);
    }
    this.dedup.loadComplete();
  }
}

/** The writes of one call, until it returns. */
export class CallChanges {
  readonly state: WriteStateView;
  readonly timers: TimerChanges;

  constructor(contents: ContainerContents, limits: HostingLimits, nowWallMs: () => number) {
    this.state = new WriteStateView(contents.state, limits);
    this.timers = new TimerChanges(contents.timers, limits, nowWallMs);
  }

  /** Refuses all further writes of the method. */
  end(): void {
    this.state.end();
    this.timers.end();
  }

  apply(): void {
    this.state.apply();
    this.timers.apply();
  }

  /** Bytes of all writes in a commit. */
  get writtenBytes(): number {
    return this.state.writtenBytes + this.timers.writtenBytes;
  }

  collectRows(rows: StoreWrite[]): void {
    this.state.collectRows(rows);
    this.timers.collectRows(rows);
  }
}
