/**
 * Options, counters and events of replication. Some times are ticks, so a process that slept does not blame its
 * replicas.
 */

export type ReplicationSettings = {
  /** A copy that a commit waits for in vain for so long is taken out of the set in sync. */
  readonly copyAckTimeoutMs: number;
  /** A container that is closed waits so long for its commits. */
  readonly closeTimeoutMs: number;
  readonly recordUpdateTimeoutMs: number;
  /** Acknowledged commits that an owner keeps in memory for copies that were away: per container, and all together. */
  readonly tailBytesMax: number;
  readonly tailsBytesMax: number;
  /** Commits of one container that wait. More end in CAPACITY. */
  readonly waitingMax: number;
  readonly waitingBytesMax: number;
  /** Copies that get a snapshot from this node at one time. */
  readonly snapshotsMax: number;
  /** Containers of which this node has anything. */
  readonly replicasMax: number;
};

/** Some times are counted in ticks, so that a process that slept does not blame others for it. */
export type ReplicationOptions = ReplicationSettings & {
  readonly tickMs: number;
  readonly copyAckTicks: number;
  readonly closeTicks: number;
};

const mib = 2 ** 20;
const copyAckTicks = 4;

export const replicationDefaults: ReplicationSettings = {
  copyAckTimeoutMs: 1_000,
  closeTimeoutMs: 5_000,
  recordUpdateTimeoutMs: 10_000,
  tailBytesMax: 4 * mib,
  tailsBytesMax: 64 * mib,
  waitingMax: 10_000,
  waitingBytesMax: 64 * mib,
  snapshotsMax: 4,
  replicasMax: 100_000,
};

export function replicationOptionsOf(settings: ReplicationSettings): ReplicationOptions {
  const tickMs = settings.copyAckTimeoutMs / copyAckTicks;
  return { ...settings, tickMs, copyAckTicks, closeTicks: Math.ceil(settings.closeTimeoutMs / tickMs) };
}

/** Since the start of the process. */
export type ReplicationCounters = {
  commits: number;
  commitBytes: number;
  /** Copies taken into the set in sync, and out of it. */
  joined: number;
  left: number;
  /** Logs that ended before they were closed. */
  lost: number;
};
