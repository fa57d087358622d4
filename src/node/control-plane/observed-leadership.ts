/**
 * Leadership as a non-voter sees it: the highest term that any manager gossips. For finding the leader; permits
 * nothing.
 */
import { isRemusterError } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import type { Cancel } from '../../base/ports.ts';
import type { Leadership, LeadershipEvents, LeadershipView } from '../../base/registry.ts';
import { type LeaderHint, leaderHintCodec } from '../../messages/group-admin.ts';

export class ObservedLeadership implements Leadership {
  #view: LeadershipView = { leader: undefined, term: 0, fence: undefined };
  readonly #watchers = new Set<LeadershipEvents>();

  view(): LeadershipView {
    return this.#view;
  }

  isLeading(): boolean {
    return false;
  }

  watch(events: LeadershipEvents): Cancel {
    this.#watchers.add(events);
    return () => this.#watchers.delete(events);
  }

  handleLeaderHint(bytes: Uint8Array): void {
    const notice = readNotice(bytes);
    if (notice !== undefined) this.#adopt(notice);
  }

  #adopt({ term, leader, since }: LeaderHint): void {
    const isNewer = term > this.#view.term;
    const isFuller = term === this.#view.term && this.#view.leader === undefined && leader !== undefined;
    if (!isNewer && !isFuller) return;
    const fence = leader === undefined || since === undefined ? undefined : fenceOf(term, since);
    this.#change({ leader, term, fence });
  }

  #change(view: LeadershipView): void {
    this.#view = view;
    for (const watcher of this.#watchers) watcher.changed?.(view);
  }
}

/** One inside of the group knows better than what it once heard: that its leader is lost, or that it leads no longer. */
export function newestLeadership(own: LeadershipView, seen: LeadershipView, isInside: boolean): LeadershipView {
  const isOlder = seen.term < own.term || (seen.term === own.term && (isInside || own.leader !== undefined));
  return seen.leader === undefined || isOlder ? own : seen;
}

function readNotice(bytes: Uint8Array): LeaderHint | undefined {
  try {
    return leaderHintCodec.decode(bytes);
  } catch (error) {
    if (isRemusterError(error)) return undefined;
    throw error;
  }
}
