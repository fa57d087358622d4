/** Timeouts, backoff and bounds of calls. Only numbers. */

export type CallRouterOptions = {
  /** How long a call retries while no owner confirms that it has the call; then NETWORK_TIMEOUT. */
  readonly retryTimeoutMs: number;
  /** Deadline of a call without one. */
  readonly callTimeoutMs: number;
  /** After so long without a reply the caller probes the owner: does it have the call? */
  readonly probeAfterMs: number;
  /** After so long without a reply the call watches the table for another owner; most calls have ended by then. */
  readonly watchAfterMs: number;
  readonly backoffMsMin: number;
  readonly backoffMsMax: number;
  /** How long a call waits for an unknown pool: it may have been created a moment ago. */
  readonly poolWaitMs: number;
  /** Containers of one owner that one fan-out calls at once. */
  readonly callsPerOwnerMax: number;
  /** Open calls of this node, and open calls of single containers; more are refused with CAPACITY. */
  readonly callsMax: number;
  /** Bytes of all results of one fan-out. */
  readonly resultBytesMax: number;
  /** Result streams that this node sends to others. */
  readonly streamsMax: number;
};

export const callRouterDefaults: CallRouterOptions = {
  retryTimeoutMs: 30_000,
  callTimeoutMs: 30_000,
  probeAfterMs: 5_000,
  watchAfterMs: 250,
  backoffMsMin: 20,
  backoffMsMax: 500,
  poolWaitMs: 1_000,
  callsPerOwnerMax: 32,
  callsMax: 65_536,
  resultBytesMax: 67_108_864,
  streamsMax: 1_024,
};
