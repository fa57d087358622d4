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
  /** For a part in what the cluster agrees on; without it the node is a member and no more. */
  readonly control?: Pick<ControlPlanePorts, 'random' | 'logStore' | 'external' | 'measure'> | undefined;
  /** For containers; only together with `control`. */
  readonly containers?: Pick<ContainerServicePorts, 'files' | 'store' | 'modules' | 'bundles'> | undefined;
  /** For jobs; only together with `control`. */
  readonly jobs?: Pick<JobServicePorts, 'sha256' | 'runners'> | undefined;
};

/** Times are final: `timeScale` has been applied. */
export type CoreOptions = Pick<NodeOptions, 'requestTimeoutMs' | 'join'> &
  ControlPlaneValues &
  ContainerValues &
  JobValues & { readonly identity: Identity };

export type CoreHooks = {
  /** A seed has answered, or there is none to ask. Called once. */
  readonly joined?: () => void;
  /** An operator told the node to leave for good, and it has: the owner stops it. */
  readonly left?: (reason: string) => void;
  /** The core is over because of a mistake of ours; the owner treats it as a crash. */
  readonly halted?: (error: unknown) => void;
};

export type NodeCore = {
  readonly identity: Identity;
  readonly events: Pick<NodeEventLog, 'since' | 'follow' | 'assertFollowerCapacity' | 'lastSeq'>;
  /** Undefined on a node that is a member and no more. */
  readonly control: ControlPlane | undefined;
  readonly containers: ContainerService | undefined;
  readonly jobs: JobService | undefined;
  /** Ends with the core. */
  readonly clock: Clock;
  joined(): boolean;
  /** True when a mistake of ours has stopped the machines. */
  halted(): boolean;
  members(): readonly MemberRow[];
  memberViews(): readonly MemberView[];
  /** The last changes of a member with their evidence, oldest first. */
  memberHistory(id: NodeId): readonly MemberHistoryEntry[];
  /** Asks these nodes for their view as well, until they answer. */
  join(seeds: readonly Address[]): void;
  /** What one of our roles wants known to everybody; empty takes it back. */
  embed(role: EmbeddingRole, state: Uint8Array): void;
  /** What a member wants known, as last heard. */
  embedded(id: NodeId): EmbeddedState | undefined;
  /** Asks a member for its own view; undefined when it does not answer. */
  requestMemberView(member: MemberRow, done: (members: readonly MemberView[] | undefined) => void): void;
  reachability(done: (result: Reachability) => void): void;
  status(): NodeStatus;
  /** By part: numbers that only grow, by name; `rejected.<reason>` for what was refused. */
  counters(): Readonly<Record<'core' | 'membership' | 'containers', Readonly<Record<string, number>>>>;
  /** Says goodbye, waits until it is heard or a bound, and is over. The second call is as good as the first. */
  stop(done: Done<void>, reason?: string): void;
};
