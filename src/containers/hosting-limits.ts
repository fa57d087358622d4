/** All bounds and time-outs of hosting, per container. */

export type HostingLimits = {
  /** Calls that have not ended: waiting, running and waiting for their commit. Beyond this CAPACITY. */
  readonly callsMax: number;
  readonly callBytesMax: number;
  /** Callers of one call: the first, and those who sent it again. */
  readonly waitersMax: number;
  readonly readersMax: number;
  /** Commits under way; further writing calls wait. */
  readonly commitsMax: number;
  readonly inFlightBytesMax: number;
  /** Of one commit: everything that one call writes, and its result. Less than copies take, or they could not go on. */
  readonly commitBytesMax: number;
  readonly commitRowsMax: number;
  readonly resultBytesMax: number;
  readonly keyBytesMax: number;
  readonly valueBytesMax: number;
  /** The quota: keys and values together. Beyond this STORE_FULL. Answers and timers have bounds of their own. */
  readonly stateBytesMax: number;
  readonly timersMax: number;
  readonly timerArgsBytesMax: number;
  readonly timerAttemptsMax: number;
  readonly timerRetryMs: number;
  /** Timers are looked at again after this long at the latest: wall clocks jump. */
  readonly timerSleepMsMax: number;
  readonly sessionsMax: number;
  /** Answers kept for one caller's session; older ones are only known to have been given. */
  readonly dedupResultsMax: number;
  readonly givenMax: number;
  readonly answerBytesMax: number;
  /** A session is kept this long after the last of its calls can be sent again. */
  readonly sessionKeepMs: number;
  /** How long a call whose time is over may hold the turn. */
  readonly graceMs: number;
  /** Callbacks, and methods that a timer calls. */
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
  givenMax: 16_384,
  answerBytesMax: 32 * mib,
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
