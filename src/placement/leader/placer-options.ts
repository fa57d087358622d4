/** How patient the placer is, and how much it does at once. Of what follows the serving lease, only the lease is here. */
import type { PlacementOptions } from '../plans/planning-context.ts';

export type PlacerOptions = PlacementOptions & {
  readonly servingLeaseMs: number;
  readonly transactionsMax: number;
  readonly retryDelayMsMin: number;
  readonly retryDelayMsMax: number;
};

export const placerDefaults: PlacerOptions = {
  servingLeaseMs: 5_000,
  openDeadlineMs: 20_000,
  openRetryMsMin: 500,
  openRetryMsMax: 30_000,
  failuresAlarm: 3,
  copyRepairDelayMs: 10_000,
  copyRepairsMax: 4,
  copyRepairStaleMs: 60_000,
  copyingMsMax: 60_000,
  handingMsMax: 45_000,
  transactionsMax: 64,
  retryDelayMsMin: 50,
  retryDelayMsMax: 5_000,
};
