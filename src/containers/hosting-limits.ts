/** All bounds and timeouts of hosting, per container. */

export type HostingLimits = {
  /** Open calls: waiting, running and committing. More end in CAPACITY. */
  readonly callsMax: number;
  readonly callBytesMax: number;
  /** Requests with the same call id that wait for its result: the first one and its retries. */
  readonly waitersMax: number;
  readonly readersMax: number;
  /** Pending commits; further writing calls wait. */
  readonly commitsMax: number;
  readonly inFlightBytesMax: number;
  /** Bytes of one commit: the writes of one call and its result. Less than replication accepts in one commit. */
  readonly commitBytesMax: number;
  readonly commitRowsMax: number;
  readonly resultBytesMax: number;
  readonly keyBytesMax: number;
  readonly valueBytesMax: number;
  /** The quota of keys and values. Beyond it STORE_FULL. Remembered results and timers have their own bounds. */
  readonly stateBytesMax: number;
  readonly timersMax: number;
  readonly timerArgsBytesMax: number;
  readonly timerAttemptsMax: number;
  readonly timerRetryMs: number;
  /** Timers are checked at least this often: wall clocks jump. */
  readonly timerSleepMsMax: number;
  readonly sessionsMax: number;
  /** Remembered results of one session; of older calls only the fact that they ran is remembered. */
  readonly dedupResultsMax: number;
  readonly evictedResultsMax: number;
  readonly dedupBytesMax: number;
  /** A session is remembered for this long after its last call can be retried. */
  readonly sessionKeepMs: number;
  /** How long a call may hold the turn after its deadline. */
  readonly graceMs: number;
  /** Time limits of callbacks, and of methods that a timer calls. */
  readonly callbackMsMax: number;
  readonly timerCallMsMax: number;
  readonly moduleWaitMs: number;
  readonly retryMs: number;
  readonly retryMsMax: number;
  readonly drainMs: number;
  readonly workPollMs: number;
  readonly stopMs: number;
};

const mib = 1_048_576;

export const hostingLimits: HostingLimits = {
  callsMax: 10_000,
  callBytesMax: 64 * mib,
  waitersMax: 16,
  readersMax: 4_096,
  commitsMax: 4_096,
  inFlightBytesMax: 32 * mib,
  commitBytesMax: 10_100_000,
  commitRowsMax: 40_000,
  resultBytesMax: 10_000_000,
  keyBytesMax: 1_024,
  valueBytesMax: 4 * mib,
  stateBytesMax: 160 * mib,
  timersMax: 10_000,
  timerArgsBytesMax: 4_096,
  timerAttemptsMax: 5,
  timerRetryMs: 1_000,
  timerSleepMsMax: 60_000,
  sessionsMax: 32_768,
  dedupResultsMax: 1_024,
  evictedResultsMax: 16_384,
  dedupBytesMax: 32 * mib,
  sessionKeepMs: 120_000,
  graceMs: 5_000,
  callbackMsMax: 600_000,
  timerCallMsMax: 30_000,
  moduleWaitMs: 10_000,
  retryMs: 1_000,
  retryMsMax: 30_000,
  drainMs: 30_000,
  workPollMs: 50,
  stopMs: 5_000,
};
