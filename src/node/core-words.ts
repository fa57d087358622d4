/**
 * What the core of a node needs and what it offers: its ports, its options, who is told what, and what others may ask of
 * it. Words only; core.ts is the wiring.
 */
import type { Done } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Address, Clock, Identity, Log, Store, Streams } from '../base/ports.ts';
import type { MemberView } from '../membership/state/member-view.ts';
import type { EmbeddedState, MembershipHandle, MembershipListener } from '../membership/membership-handle.ts';
import type { EmbeddingRole } from '../messages/membership.ts';
import type { ContainerValues } from './container-options.ts';
import type { Containers, ContainersPorts } from './containers/containers.ts';
import type { Control, ControlPorts } from './control/control.ts';
import type { ControlValues } from './control-options.ts';
import type { EventLog } from './event-log.ts';
import type { JobValues } from './job-options.ts';
import type { Jobs, JobsPorts } from './jobs/jobs.ts';
import type { AuditEntry } from './member-audit.ts';
import type { NodeOptions } from './options-table.ts';
import type { MemberRow, OwnTruth } from './own-truth.ts';
import type { Reachability } from './reachability.ts';

/** Starts membership, wherever it runs. The clock ends with the core. */
export type MembershipStart = (
  site: { readonly clock: Clock; readonly streams: Streams; readonly identity: Identity },
  reports: MembershipListener,
) => MembershipHandle;

export type CorePorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly store: Store;
  readonly log: Log;
  readonly membership: MembershipStart;
  /** For a part in what the cluster agrees on; without it the node is a member and no more. */
  readonly control?: Pick<ControlPorts, 'random' | 'logStore' | 'external' | 'assignments' | 'measure'> | undefined;
  /** For containers; only together with `control`. */
  readonly containers?: Pick<ContainersPorts, 'files' | 'store' | 'modules' | 'bundles'> | undefined;
  /** For jobs; only together with `control`. */
  readonly jobs?: Pick<JobsPorts, 'sha256' | 'runners'> | undefined;
};

/** Times are final: `timeScale` has been applied. */
export type CoreOptions = Pick<NodeOptions, 'requestTimeoutMs' | 'join'> &
  ControlValues &
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
  readonly events: Pick<EventLog, 'since' | 'follow' | 'checkRoom' | 'lastSeq'>;
  /** Undefined on a node that is a member and no more. */
  readonly control: Control | undefined;
  readonly containers: Containers | undefined;
  readonly jobs: Jobs | undefined;
  /** Ends with the core. */
  readonly clock: Clock;
  joined(): boolean;
  /** True when a mistake of ours has stopped the machines. */
  halted(): boolean;
  members(): readonly MemberRow[];
  views(): readonly MemberView[];
  /** The last changes of a member with their evidence, oldest first. */
  audit(id: NodeId): readonly AuditEntry[];
  /** Asks these nodes for their view as well, until they answer. */
  join(seeds: readonly Address[]): void;
  /** What one of our roles wants known to everybody; empty takes it back. */
  embed(role: EmbeddingRole, state: Uint8Array): void;
  /** What a member wants known, as last heard. */
  embedded(id: NodeId): EmbeddedState | undefined;
  /** Asks a member for its own view; undefined when it does not answer. */
  viewFrom(member: MemberRow, done: (members: readonly MemberView[] | undefined) => void): void;
  reachability(done: (result: Reachability) => void): void;
  ownTruth(): OwnTruth;
  /** By part: numbers that only grow, by name; `rejected.<reason>` for what was refused. */
  counters(): Readonly<Record<'core' | 'membership' | 'containers', Readonly<Record<string, number>>>>;
  /** Says goodbye, waits until it is heard or a bound, and is over. The second call is as good as the first. */
  stop(done: Done<void>, reason?: string): void;
};
