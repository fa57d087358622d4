/**
 * How long a voter waits before it starts an election: health, priority and flapping delay it, and never forbid it, so
 * the better candidate is first; among equals the lowest id.
 */
import type { Random } from '../../base/random.ts';

export type ElectionRanking = {
  /** 0 to 8. */
  readonly health: number;
  /** 0 to 10; 0 starts first. */
  readonly priority: number;
  /** Rank among the voters by id. */
  readonly rank: number;
  readonly cooldownRatio: number;
  /** There is no other voter. */
  readonly isOnlyVoter: boolean;
};

/** Above this score a leader transfers leadership to a healthier voter, if there is one. */
export const leaderHealthMax = 4;

const healthMaxScore = 8;
const priorityMax = 10;
const rankRatio = 0.05;
const rankMax = 8;

/** In election timeouts: at most 1 + 0.5 + 0.4 + 2. */
function shiftRatio({ health, priority, rank, cooldownRatio }: ElectionRanking): number {
  const byHealth = Math.min(health, healthMaxScore) / healthMaxScore;
  return byHealth + (priority / priorityMax) * 0.5 + Math.min(rank, rankMax) * rankRatio + cooldownRatio;
}

/** Delay since the leader was last heard. */
export function electionDelayMs(timeoutMs: number, candidate: ElectionRanking, random: Random): number {
  if (candidate.isOnlyVoter) return timeoutMs;
  return timeoutMs * (1 + random.fraction() + shiftRatio(candidate));
}

/** Delay after the process of the leader ended: its lease need not be waited for. */
export function leaderGoneDelayMs(timeoutMs: number, candidate: ElectionRanking, random: Random): number {
  return timeoutMs * (0.2 * random.fraction() + shiftRatio(candidate));
}

/** Delay after an election without a winner. */
export function electionRetryDelayMs(timeoutMs: number, candidate: ElectionRanking, random: Random): number {
  return timeoutMs * (0.4 + random.fraction() + Math.min(candidate.rank, rankMax) * rankRatio);
}
