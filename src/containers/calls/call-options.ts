/** Time-outs, backoff and bounds of calls. Only numbers. */

export type CallRouterOptions = {
  /** How long an owner is looked for while nobody has the call in hand; then NETWORK_TIMEOUT. */
  readonly retryTimeoutMs: number;
  /** Of a call that names none. */
  readonly callTimeoutMs: number;
  /** After so long without an answer the owner is asked whether it has the call. */
  readonly probeAfterMs: number;
  /** After so long without an answer the table is watched for another owner: most calls are over by then. */
  readonly watchAfterMs: number;
  readonly backoffMsMin: number;
  readonly backoffMsMax: number;
  /** How long a pool that nobody here has heard of may still turn up: it may have been created a moment ago. */
  readonly poolWaitMs: number;
  /** How many containers of one node are asked at once by one call. */
  readonly neighbourhood: number;
  /** Calls of this node that have not ended, and containers that were asked; more are refused with CAPACITY. */
  readonly callsMax: number;
  /** What the answers to one call of many containers may add up to. */
  readonly gatheredBytesMax: number;
  /** Flows that this node sends to others. */
  readonly flowsMax: number;
};

export const callRouterDefaults: CallRouterOptions = {
  retryTimeoutMs: 30_000,
  callTimeoutMs: 30_000,
  probeAfterMs: 5_000,
  watchAfterMs: 250,
  backoffMsMin: 20,
  backoffMsMax: 500,
  poolWaitMs: 1_000,
  neighbourhood: 32,
  callsMax: 65_536,
  gatheredBytesMax: 67_108_864,
  flowsMax: 1_024,
};
