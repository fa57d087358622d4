/**
 * Leadership as a non-voter sees it: the highest term that any manager gossips. It serves to find the leader and grants
 * no right.
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
    const hint = decodeLeaderHint(bytes);
    if (hint !== undefined) this.#adopt(hint);
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

/** The own view of a group member wins over gossip of the same term: it knows when the leader is lost. */
export function newestLeadership(
  own: LeadershipView,
  observed: LeadershipView,
  isGroupMember: boolean,
): LeadershipView {
  const isOlder =
    observed.term < own.term || (observed.term === own.term && (isGroupMember || own.leader !== undefined));
  return observed.leader === undefined || isOlder ? own : observed;
}

function decodeLeaderHint(bytes: Uint8Array): LeaderHint | undefined {
  try {
    return leaderHintCodec.decode(bytes);
  } catch (error) {
    if (isRemusterError(error)) return undefined;
    throw error;
  }
}
