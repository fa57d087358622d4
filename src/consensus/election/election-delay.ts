/**
 * How long a voter waits before it starts an election: health, priority and flapping delay it, and never forbid it, so
 * the better candidate is first; among equals the lowest id.
 */
import type { Random } from '../../base/random.ts';

export type ElectionRanking = {
  /** 0 to 8. */
  readonly health: number;
  /** 0 to 10; 0 stands first. */
  readonly priority: number;
  /** Place among the voters by id. */
  readonly rank: number;
  readonly cooldownRatio: number;
  /** There is no other voter. */
  readonly isOnlyVoter: boolean;
};

/** Above this a leader hands over to a healthier voter, if there is one. */
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

/** After the leader was heard last. */
export function electionDelayMs(timeoutMs: number, candidate: ElectionRanking, random: Random): number {
  if (candidate.isOnlyVoter) return timeoutMs;
  return timeoutMs * (1 + random.fraction() + shiftRatio(candidate));
}

/** After the process of the leader is known to be gone: nobody has to wait for its lease. */
export function leaderGoneDelayMs(timeoutMs: number, candidate: ElectionRanking, random: Random): number {
  return timeoutMs * (0.2 * random.fraction() + shiftRatio(candidate));
}

/** After an election without a winner. */
export function electionRetryDelayMs(timeoutMs: number, candidate: ElectionRanking, random: Random): number {
  return timeoutMs * (0.4 + random.fraction() + Math.min(candidate.rank, rankMax) * rankRatio);
}
