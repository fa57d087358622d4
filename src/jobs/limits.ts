/** Owns every limit of jobs, each with the error beyond it. Never enforces one. */
export const jobLimits = {
  /** Of one bundle of code; TOO_LARGE beyond. */
  bundleBytesMax: 4_194_304,
  /** Of one part of a bundle or of a result in the registry. */
  partBytesMax: 524_288,
  workflowsMax: 100,
  /** Of one workflow: one for each core it may have at a time, or for each share of its items. */
  unitsMax: 4_096,
  coresMax: 4_096,
  vusMax: 1_000_000,
  itemsMax: 100_000_000,
  envBytesMax: 65_536,
  /** What setup hands to all, and what workflows hand on to those after them, as JSON. */
  contextBytesMax: 1_000_000,
  /** Of the results of one unit, and of a workflow unless the managers allow more; beyond it is TOO_LARGE, and says so. */
  resultBytesMax: 10_000_000,
  /** Of the list of failed items of one unit; with its results at most `resultBytesMax`. */
  failuresBytesMax: 3_000_000,
  /** Jobs that are not over; CAPACITY beyond. */
  openJobsMax: 20_000,
  /** Of one submitter. */
  openJobsPerSubmitterMax: 15_000,
  /** Jobs that are over and still known; the oldest go first. */
  finishedJobsMax: 1_000,
  schedulesMax: 1_000,
  /** Of one unit: counts and histograms. */
  summaryBytesMax: 335_872,
  /** In one message between manager and worker. */
  unitsInMessageMax: 256,
  nameLengthMax: 63,
  timeoutMsMax: 7 * 86_400_000,
  maxRetriesMax: 100,
} as const;
