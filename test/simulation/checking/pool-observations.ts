/** Facts that simulated pools report, as data. No behaviour. */
import type { ErrorCode } from '../../../src/base/errors.ts';
import type { ContainerLabel } from '../../../src/simulation/cluster/registry-oracle.ts';
import type { CommandId } from './group-observations.ts';

/** A node that would execute a call of that container at this instant. */
export type ServingNode = { readonly node: string; readonly fence: bigint };

/** A method of a container ran. */
export type CallExecution = ContainerLabel & {
  readonly kind: 'executed';
  readonly node: string;
  readonly fence: bigint;
  readonly call: string;
  readonly isWrite: boolean;
  /** The container that the state was created for, as the state records it. */
  readonly tag: string | undefined;
  /** The state records that this call was executed before. */
  readonly wasExecuted: boolean;
  readonly hasLease: boolean;
  /** Other nodes that would have executed it. */
  readonly alsoServedBy: readonly ServingNode[];
  /** How long the pool has been deleted from the registry; negative while it exists. */
  readonly goneMs: number;
};

/** An acknowledged write that the disk of an in-sync replica lacks. */
export type MissingWrite = { readonly node: string; readonly call: string };

export type TableSnapshot = { readonly node: string; readonly version: number; readonly hash: string };

export type PoolObservation =
  | CallExecution
  /** The open callback of the module ran: no call may run before it. */
  | (ContainerLabel & {
      readonly kind: 'opened';
      readonly node: string;
      readonly fence: bigint;
      readonly opening: string;
    })
  /** A caller got the reply of a write. */
  | (ContainerLabel & { readonly kind: 'acknowledged'; readonly call: string })
  /** A caller discarded a reply and sent the call again. */
  | { readonly kind: 'repliedAgain'; readonly call: string; readonly first: string; readonly second: string }
  /** The disks of all in-sync replicas were read, after an acknowledgement or a change of the ISR. */
  | (ContainerLabel & { readonly kind: 'replicasRead'; readonly missing: readonly MissingWrite[] })
  /** A call ended with an error, at the first attempt or a later one. */
  | { readonly kind: 'callFailed'; readonly call: string; readonly code: ErrorCode; readonly message: string }
  /** All attempts of a call ended with `stateChanged: 'no'`, and its client gives up. */
  | { readonly kind: 'callRefused'; readonly call: string; readonly commands: readonly CommandId[] }
  /** From now on the contents of every container are read. */
  | { readonly kind: 'dumpStarted' }
  /** The contents of a container after the quiet phase: the ids of the calls in its state. */
  | (ContainerLabel & { readonly kind: 'dumped'; readonly tag: string; readonly done: readonly string[] })
  | (ContainerLabel & { readonly kind: 'containerUnreachable'; readonly by: string; readonly reason: string })
  /** The address tables of all nodes, after the quiet phase. */
  | { readonly kind: 'tables'; readonly tables: readonly TableSnapshot[] }
  /** A node ended: the version of a container in its address table at that time, and the one in its log. */
  | (ContainerLabel & {
      readonly kind: 'tableLogRead';
      readonly node: string;
      readonly known: number;
      readonly logged: number;
    })
  /** A node stopped in order. It owned so many containers with replicas in sync; `kept` were not handed over. */
  | {
      readonly kind: 'nodeStopped';
      readonly node: string;
      readonly owned: number;
      readonly kept: readonly ContainerLabel[];
    }
  /** A client deletes the pool, with retries until it is gone. */
  | { readonly kind: 'poolDeleted'; readonly pool: string }
  /** That node has replied to a client that the pool exists. */
  | { readonly kind: 'poolCreated'; readonly pool: string; readonly node: string }
  /** The node that created a pool refused a call of it before any restart. */
  | {
      readonly kind: 'creatorRefused';
      readonly pool: string;
      readonly node: string;
      readonly call: string;
      readonly code: ErrorCode;
      readonly isDeleting: boolean;
    }
  /** The first request to delete a pool failed. */
  | { readonly kind: 'deletionRefused'; readonly pool: string; readonly code: ErrorCode }
  /** Names of recreated pools that do not exist after the quiet phase. */
  | { readonly kind: 'poolsMissing'; readonly names: readonly string[] }
  /** Pools that a node knows or serves at the end. */
  | { readonly kind: 'poolsRead'; readonly node: string; readonly pools: readonly string[] };
