/** Facts that simulated pools report, as data. No behaviour. */
import type { ErrorCode } from '../../../src/base/errors.ts';
import type { ContainerLabel } from '../../../src/simulation/cluster/registry-oracle.ts';

/** A node that would execute a call of that container at this instant. */
export type ServingNode = { readonly node: string; readonly fence: bigint };

/** A method of a container has run. */
export type CallExecution = ContainerLabel & {
  readonly kind: 'executed';
  readonly node: string;
  readonly fence: bigint;
  readonly call: string;
  readonly isWrite: boolean;
  /** What the state says whose it is. */
  readonly tag: string | undefined;
  /** The state says that this call has been done already. */
  readonly wasExecuted: boolean;
  readonly hasLease: boolean;
  /** Who else would have executed it. */
  readonly alsoServedBy: readonly ServingNode[];
  /** For how long the registry has not had that pool any more; negative while it has it. */
  readonly goneMs: number;
};

/** What the disk of a holder in sync lacks of what was acknowledged. */
export type MissingWrite = { readonly node: string; readonly call: string };

export type TableSnapshot = { readonly node: string; readonly version: number; readonly hash: string };

export type PoolObservation =
  | CallExecution
  /** A callback of the module has run: nothing else may run before it. */
  | (ContainerLabel & { readonly kind: 'opened'; readonly node: string; readonly fence: bigint; readonly how: string })
  /** A caller was told that its writing call is done. */
  | (ContainerLabel & { readonly kind: 'acknowledged'; readonly call: string })
  /** A caller that pretended to have lost its answer has asked again. */
  | { readonly kind: 'answeredAgain'; readonly call: string; readonly first: string; readonly again: string }
  /** The disks of all holders in sync, looked at because something was acknowledged or the holders have changed. */
  | (ContainerLabel & { readonly kind: 'copiesLooked'; readonly lacks: readonly MissingWrite[] })
  /** A call ended with an error, at the first attempt or a later one. */
  | { readonly kind: 'callFailed'; readonly call: string; readonly code: ErrorCode; readonly message: string }
  /** All attempts of a call have ended with the promise that nothing happened, and its client makes no more. */
  | {
      readonly kind: 'refused';
      readonly call: string;
      readonly orders: readonly { readonly client: string; readonly number: number }[];
    }
  /** All containers are asked now what they hold. */
  | { readonly kind: 'dumping' }
  /** What a container answers in the end, when all is well: the ids of the calls that its state has seen. */
  | (ContainerLabel & { readonly kind: 'dumped'; readonly tag: string; readonly done: readonly string[] })
  | (ContainerLabel & { readonly kind: 'silent'; readonly by: string; readonly why: string })
  /** The address tables of all nodes, when all has been well for a while. */
  | { readonly kind: 'tables'; readonly tables: readonly TableSnapshot[] }
  /** A node has ended: the version of a container that its table knew shortly before, and the one in its log. */
  | (ContainerLabel & {
      readonly kind: 'logLooked';
      readonly node: string;
      readonly known: number;
      readonly logged: number;
    })
  /** Somebody wants it to be gone, and goes on until it is. */
  | { readonly kind: 'poolDeleted'; readonly pool: string }
  /** A client was told by that node that the pool is there. */
  | { readonly kind: 'poolCreated'; readonly pool: string; readonly node: string }
  /** The node that has told of a pool has refused a call of it, in the same life. */
  | {
      readonly kind: 'creatorRefused';
      readonly pool: string;
      readonly node: string;
      readonly call: string;
      readonly code: ErrorCode;
      readonly isDeleting: boolean;
    }
  /** The first order to delete a pool has failed. */
  | { readonly kind: 'deletionRefused'; readonly pool: string; readonly code: ErrorCode }
  /** Of those that are made again and again: the names under which there is none when all has been well for a while. */
  | { readonly kind: 'poolsMissing'; readonly names: readonly string[] }
  /** Pools that somebody still knows or serves in the end. */
  | { readonly kind: 'poolsSeen'; readonly node: string; readonly pools: readonly string[] };
