/**
 * The constants of membership, and switches for what goes beyond plain SWIM. Filled by profile from the options table.
 */
export type MembershipOptions = {
  /** Without datagrams (push) this node sends heartbeats over TCP to a manager, which vouches for it. */
  readonly membership: 'swim' | 'push';
  readonly probeIntervalMs: number;
  readonly probeTimeoutFloorMs: number;
  readonly probeTimeoutMs: number;
  readonly indirectTimeoutMs: number;
  readonly helpersCount: number;
  readonly suspicionAlphaRatio: number;
  readonly suspicionBetaRatio: number;
  readonly confirmationsMax: number;
  readonly refusalsNeededCount: number;
  readonly gossipIntervalMs: number;
  readonly gossipFanoutCount: number;
  readonly retransmitRatio: number;
  readonly gossipBufferMax: number;
  readonly gossipToDeadMs: number;
  readonly syncIntervalMs: number;
  readonly syncPauseMs: number;
  readonly syncTimeoutMs: number;
  readonly joinRetryMs: number;
  readonly reviveIntervalMs: number;
  readonly reapAfterMs: number;
  readonly cleanupIntervalMs: number;
  readonly observersCount: number;
  readonly watchIntervalMs: number;
  readonly stuckAfterMs: number;
  readonly leaveTimeoutMs: number;
  readonly membersMax: number;
  /** What is laid on top of plain SWIM; the experiments measure what each is worth. */
  readonly refinements: MembershipRefinements;
};

export type MembershipRefinements = {
  /** Lifeguard: probe interval and timeout grow with our own bad health. */
  readonly healthAwareProbe: boolean;
  /** Lifeguard: the suspicion time starts long and shrinks with each confirmation. */
  readonly healthAwareSuspicion: boolean;
  /** Lifeguard: the accused hears of it first. */
  readonly buddySystem: boolean;
  /** What we did not hear while we slept is held against nobody. */
  readonly pauseAware: boolean;
  /** The death that another declared only counts for those who suspected it as well. */
  readonly requireOwnSuspicion: boolean;
  /** A helper that got no answer either is a witness of its own. */
  readonly witnesses: boolean;
  /** Who comes and goes without a reason takes itself out for a while (restraint.ts). */
  readonly flapDamping: boolean;
};

export const lanMembershipOptions: MembershipOptions = {
  membership: 'swim',
  probeIntervalMs: 1_000,
  probeTimeoutFloorMs: 100,
  probeTimeoutMs: 500,
  indirectTimeoutMs: 1_000,
  helpersCount: 3,
  suspicionAlphaRatio: 2,
  suspicionBetaRatio: 6,
  confirmationsMax: 3,
  refusalsNeededCount: 2,
  gossipIntervalMs: 200,
  gossipFanoutCount: 3,
  retransmitRatio: 4,
  gossipBufferMax: 5_000,
  gossipToDeadMs: 30_000,
  syncIntervalMs: 30_000,
  syncPauseMs: 1_000,
  syncTimeoutMs: 5_000,
  joinRetryMs: 1_000,
  reviveIntervalMs: 5_000,
  reapAfterMs: 86_400_000,
  cleanupIntervalMs: 30_000,
  observersCount: 3,
  watchIntervalMs: 30_000,
  stuckAfterMs: 15_000,
  leaveTimeoutMs: 1_000,
  membersMax: 20_000,
  refinements: {
    healthAwareProbe: true,
    healthAwareSuspicion: true,
    buddySystem: true,
    pauseAware: true,
    requireOwnSuspicion: true,
    witnesses: true,
    flapDamping: true,
  },
};
