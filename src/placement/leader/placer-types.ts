/** Options of the placer with their defaults, and its events: each is emitted after its transaction has succeeded. */
import type { PlacementContainerEvent, PlacementOptions } from '../plans/planning-context.ts';

export type PlacerOptions = PlacementOptions & {
  /** The only option of the serving lease: all other times of the lease are fixed shares of it. */
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

export type PlacerEvent =
  | { readonly kind: 'placer.leading' }
  | { readonly kind: 'placer.superseded' }
  | PlacementContainerEvent
  | { readonly kind: 'pool.created' | 'pool.deleted'; readonly pool: string; readonly containers: number };
