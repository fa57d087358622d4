/** Times and limits of membership, and switches for what goes beyond plain SWIM. The options table fills them. */
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
  /** Extensions of plain SWIM; the experiments measure the effect of each. */
  readonly refinements: MembershipRefinements;
};

export type MembershipRefinements = {
  /** Lifeguard: probe interval and timeout grow with the local health score. */
  readonly healthAwareProbe: boolean;
  /** Lifeguard: the suspicion starts long and shrinks with each independent accuser. */
  readonly healthAwareSuspicion: boolean;
  /** Lifeguard: a message to a suspect carries the suspicion first. */
  readonly buddySystem: boolean;
  /** Time in which this node did not run does not count against other members. */
  readonly pauseAware: boolean;
  /** A node believes the death that another declared only if it suspects the member itself. */
  readonly requireOwnSuspicion: boolean;
  /** A helper whose ping also failed counts as an independent accuser. */
  readonly witnesses: boolean;
  /** A member that flaps withdraws itself for a while (flap-damping.ts). */
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
