/**
 * Ports, options, metrics and events of replication. Timeouts of replicas are counted in ticks, so that a process that
 * was paused does not blame its replicas.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Address, Clock, Identity, RowStore, Streams } from '../../base/ports.ts';
import type { Registry } from '../../base/registry.ts';

export type ReplicationPorts = {
  readonly self: Pick<Identity, 'id' | 'generation'>;
  readonly store: Pick<RowStore, 'read' | 'write'>;
  readonly streams: Pick<Streams, 'request'>;
  readonly registry: Pick<Registry, 'transact' | 'range'>;
  readonly clock: Clock;
  readonly addressOf: (node: NodeId) => Address | undefined;
  /** That generation of the node has certainly ended: no commit needs to wait for it. */
  readonly isGone?: (node: NodeId, generation: number) => boolean;
  readonly emit: (event: ReplicationEvent) => void;
  readonly onHalt: (error: unknown) => void;
};

export type ReplicationMetrics = Readonly<ReplicationCounters> & {
  /** Containers that this node has open as owner. */
  readonly open: number;
  readonly held: number;
  /** Commits that wait for the owner's disk or for replicas. */
  readonly waiting: number;
  /** Replicas of open containers that are not in the ISR. */
  readonly lagging: number;
  readonly tailBytes: number;
  readonly sweeping: number;
};

export type ReplicationSettings = {
  /** A replica that keeps a commit waiting for so long is removed from the ISR. */
  readonly copyAckTimeoutMs: number;
  /** How long the close of a container waits for its pending commits. */
  readonly closeTimeoutMs: number;
  readonly recordUpdateTimeoutMs: number;
  /**
   * Bytes of acknowledged commits that an owner keeps for returning replicas: per container, and for all containers.
   */
  readonly tailBytesMax: number;
  readonly tailsBytesMax: number;
  /** Pending commits of one container. More end in CAPACITY. */
  readonly waitingMax: number;
  readonly waitingBytesMax: number;
  /** Replicas that receive a snapshot from this node at the same time. */
  readonly snapshotsMax: number;
  /** Containers of which this node stores a replica. */
  readonly replicasMax: number;
};

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
  /** Replicas that joined the ISR, and that left it. */
  joined: number;
  left: number;
  /** Replicators that ended before their container was closed. */
  lost: number;
};

type OfContainer = { readonly pool: string; readonly container: number };

/** Emitted after the fact. Kind and fields are part of the event log of a node. */
export type ReplicationEvent =
  /** The ISR has changed; both lists are without the owner. */
  | ({ readonly kind: 'inSync'; readonly nodes: readonly NodeId[]; readonly left: readonly NodeId[] } & OfContainer)
  /** The replicator of the owner ended before the container was closed. */
  | ({ readonly kind: 'lost'; readonly reason: string } & OfContainer)
  /** State on this node is unreadable or missing. */
  | ({ readonly kind: 'corrupt'; readonly reason: string } & OfContainer)
  /** The replica is deleted from this node, because the record does not name the node. */
  | { readonly kind: 'dropped'; readonly pool: number; readonly container: number }
  /** The replicas of an earlier generation could not be listed, so they were not compared with the records. */
  | { readonly kind: 'unreconciled'; readonly reason: string };
