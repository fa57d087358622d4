/** Ports, options, hooks and interface of a node's core. Types only. */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Clock, Identity, Log, Store, Streams } from '../../base/ports.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { EmbeddedState } from '../../membership/membership-handle.ts';
import type { EmbeddingRole } from '../../messages/membership.ts';
import type { ContainerValues } from '../options/container-options.ts';
import type { ContainerService, ContainerServicePorts } from '../containers/container-service.ts';
import type { ControlPlane, ControlPlanePorts } from '../control-plane/control-plane.ts';
import type { ControlPlaneValues } from '../options/control-plane-options.ts';
import type { NodeEventLog } from './node-event-log.ts';
import type { JobValues } from '../options/job-options.ts';
import type { JobService, JobServicePorts } from '../jobs/job-service.ts';
import type { MemberHistoryEntry } from '../membership/member-history.ts';
import type { NodeOptions } from '../options/options-table.ts';
import type { MemberRow } from '../membership/member-rows.ts';
import type { MembershipStart } from '../membership/membership-start.ts';
import type { NodeStatus } from './node-status.ts';
import type { Reachability } from '../membership/reachability.ts';

export type CorePorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly store: Store;
  readonly log: Log;
  readonly membership: MembershipStart;
  /** Ports of the control plane; without them the node only takes part in membership. */
  readonly control?: Pick<ControlPlanePorts, 'random' | 'logStore' | 'external' | 'measure'> | undefined;
  /** Ports of containers; only together with `control`. */
  readonly containers?: Pick<ContainerServicePorts, 'files' | 'store' | 'modules' | 'bundles'> | undefined;
  /** Ports of jobs; only together with `control`. */
  readonly jobs?: Pick<JobServicePorts, 'sha256' | 'runners'> | undefined;
};

/** Times are final: `timeScale` has been applied. */
export type CoreOptions = Pick<NodeOptions, 'requestTimeoutMs' | 'join'> &
  ControlPlaneValues &
  ContainerValues &
  JobValues & { readonly identity: Identity };

export type CoreHooks = {
  /** A seed has replied, or none was given. Called once. */
  readonly joined?: () => void;
  /** The node has left for good, by command of an operator: its owner stops it. */
  readonly left?: (reason: string) => void;
  /** The core has stopped because of an internal error; its owner treats that as a crash. */
  readonly halted?: (error: unknown) => void;
};

export type NodeCore = {
  readonly identity: Identity;
  readonly events: Pick<NodeEventLog, 'since' | 'follow' | 'assertFollowerCapacity' | 'lastSeq'>;
  /** Undefined on a node that only takes part in membership. */
  readonly control: ControlPlane | undefined;
  readonly containers: ContainerService | undefined;
  readonly jobs: JobService | undefined;
  /** Its timers end with the core. */
  readonly clock: Clock;
  joined(): boolean;
  /** True if an internal error has stopped the machines. */
  halted(): boolean;
  members(): readonly MemberRow[];
  memberViews(): readonly MemberView[];
  /** The last changes of a member with their evidence, oldest first. */
  memberHistory(id: NodeId): readonly MemberHistoryEntry[];
  /** Requests the view of these nodes, too, until they reply. */
  join(seeds: readonly Address[]): void;
  /** Publishes state of a role of this node to all members; an empty array withdraws it. */
  embed(role: EmbeddingRole, state: Uint8Array): void;
  /** The embedded state of a member, as last received. */
  embedded(id: NodeId): EmbeddedState | undefined;
  /** Requests the view of a member; undefined if it does not reply. */
  requestMemberView(member: MemberRow, done: (members: readonly MemberView[] | undefined) => void): void;
  reachability(done: (result: Reachability) => void): void;
  status(): NodeStatus;
  /** Growing counters by part and name; `rejected.<reason>` counts rejected input. */
  counters(): Readonly<Record<'core' | 'membership' | 'containers', Readonly<Record<string, number>>>>;
  /** False once the node is about to leave: calls of clients go to other nodes. */
  acceptsCalls(): boolean;
  /**
   * Hands over what other nodes can take, lets calls and units end, says goodbye and stops, within `budgetMs`. A second
   * call waits for the same stop.
   */
  stop(done: Done<void>, reason?: string, budgetMs?: number): void;
};
