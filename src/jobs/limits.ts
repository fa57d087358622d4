/** Every limit of jobs. Enforces none itself: each limit is checked where the value enters. */
export const jobLimits = {
  /** Size of a bundle; TOO_LARGE beyond. */
  bundleBytesMax: 4_194_304,
  /** Size of one part of a bundle or result in the registry. */
  partBytesMax: 524_288,
  workflowsMax: 100,
  /** Units of one workflow: one per core that it may use at a time, or one per share of its items. */
  unitsMax: 4_096,
  coresMax: 4_096,
  vusMax: 1_000_000,
  itemsMax: 100_000_000,
  envBytesMax: 65_536,
  /** JSON of what setup passes to all units, and of what workflows pass to their dependents. */
  contextBytesMax: 1_000_000,
  /** Results of one unit, and of a workflow unless the managers allow more; TOO_LARGE beyond. */
  resultBytesMax: 10_000_000,
  /** Failed items of one unit; together with its results at most `resultBytesMax`. */
  failuresBytesMax: 3_000_000,
  /** Jobs without a terminal status; CAPACITY beyond. */
  openJobsMax: 20_000,
  /** The same per submitter. */
  openJobsPerSubmitterMax: 15_000,
  /** Finished jobs that are kept; the oldest are deleted first. */
  finishedJobsMax: 1_000,
  schedulesMax: 1_000,
  /** Counts and histograms of one unit. */
  summaryBytesMax: 335_872,
  /** Units in one message between manager and worker. */
  unitsInMessageMax: 256,
  nameLengthMax: 63,
  timeoutMsMax: 7 * 86_400_000,
  maxRetriesMax: 100,
} as const;
