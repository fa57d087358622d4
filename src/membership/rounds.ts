/**
 * Whom to greet now, and how long silence may last. Small clusters greet everybody in each interval. Larger ones take
 * turns, so that the cost per node stays flat, and the patience before a verdict grows with the length of a round.
 */
import { type MemberTable, type Patience, isUp } from './member-table.ts';
import type { Member } from './member.ts';

export type RoundTimes = {
  readonly helloIntervalMs: number;
  readonly silentAfterMs: number;
  readonly deadAfterMs: number;
};

/** How many greetings the whole cluster may exchange per interval before its members take turns. */
const greetingsPerInterval = 48;
const fanoutMin = 2;
/** Those that were named but not heard yet go first, so that a join is quick. */
const newcomersPerTick = 8;
/** The gone are greeted this many times less often: somebody must be the first to speak after a partition. */
const goneSlowdown = 10;
const forgetAfterDeaths = 360;

export class Rounds {
  readonly #table: MemberTable;
  readonly #times: RoundTimes;

  constructor(table: MemberTable, times: RoundTimes) {
    this.#table = table;
    this.#times = times;
  }

  /** Those with the oldest contact, not more than this interval's share. */
  due(nowMs: number): Member[] {
    const newcomers: Member[] = [];
    const others: Member[] = [];
    for (const member of this.#table.values()) {
      if (nowMs - member.contactMs < this.#pauseMs(nowMs, member)) continue;
      if (member.state === 'unconfirmed') newcomers.push(member);
      else if (member.state !== 'left') others.push(member);
    }
    return [...oldest(newcomers, newcomersPerTick), ...oldest(others, this.#fanout())];
  }

  patience(): Patience {
    const intervalsPerRound = Math.ceil(this.#table.size / this.#fanout());
    // Each pair meets about twice per round, once from either side.
    const stretch = Math.max(1, intervalsPerRound / 2);
    const deadAfterMs = this.#times.deadAfterMs * stretch;
    return {
      silentAfterMs: this.#times.silentAfterMs * stretch,
      deadAfterMs,
      forgetAfterMs: deadAfterMs * forgetAfterDeaths,
    };
  }

  /** Half an interval, because a greeting that came from the other side in the meantime has served the same purpose. */
  #pauseMs(nowMs: number, member: Member): number {
    const { helloIntervalMs, deadAfterMs } = this.#times;
    const gone = !isUp(member.state) && nowMs - member.heardMs >= deadAfterMs;
    return gone ? helloIntervalMs * goneSlowdown : helloIntervalMs / 2;
  }

  #fanout(): number {
    return Math.max(fanoutMin, Math.floor(greetingsPerInterval / Math.max(1, this.#table.size)));
  }
}

/** The few with the oldest contact, oldest first, without sorting the many. */
function oldest(members: readonly Member[], count: number): readonly Member[] {
  const picked: Member[] = [];
  for (const member of members) {
    const later = picked.findIndex((other) => member.contactMs < other.contactMs);
    if (later === -1 && picked.length === count) continue;
    picked.splice(later === -1 ? picked.length : later, 0, member);
    if (picked.length > count) picked.pop();
  }
  return picked;
}
