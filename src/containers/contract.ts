/**
 * The types through which address table, hosting, replication and calls see each other. Types only; it imports none of
 * them.
 *
 *   registry --records--> address table (WAL, then memory) --changes--> hosting --commits--> replication --> disks
 *                               ^                                         ^
 *   caller --> calls (route, send, retry) ------------calls---------------+   only while the serving lease holds
 */
import type { Done, StateChanged } from '../base/errors.ts';
import type { CallId, NodeId } from '../base/ids.ts';
import type { Cancel, StoreWrite } from '../base/ports.ts';
import type { ContainerRecord, PoolRecord } from '../placement/state/container-records.ts';
import type { CallOptions, Route } from './module.ts';

export type KnownPool = { readonly name: string; readonly record: PoolRecord };

/**
 * One change of a container's record, in the order of the registry. `record` is undefined when the container is gone.
 */
export type ContainerChange = {
  readonly pool: KnownPool;
  readonly container: number;
  readonly record: ContainerRecord | undefined;
  /** Registry revision of the record: the version of the table entry, and the guard of a record update. */
  readonly revision: number;
};

export type OwnedContainerChange = ContainerChange & { readonly record: ContainerRecord };

/**
 * The owners of all containers, as far as this node knows. An entry is in the WAL before it is here. It may be stale:
 * the addressed node and the fence correct a caller that uses a stale entry.
 */
export type AddressTable = {
  pool(name: string): KnownPool | undefined;
  poolByNumber(major: number): KnownPool | undefined;
  pools(): readonly KnownPool[];
  /** False until the registry is loaded: a missing pool may exist. */
  readonly isConfirmed?: boolean;
  /** Undefined: no owner, or unknown. */
  ownerOf(pool: KnownPool, container: number): NodeId | undefined;
  /** 0: the container is unknown. */
  versionOf(pool: KnownPool, container: number): number;
  /** An owner that a reply has named; ignored if it is not newer. */
  addOwnerHint(pool: KnownPool, container: number, owner: NodeId | undefined, version: number): void;
  /** Calls back when the owner of that container changes, until cancelled. */
  watchOwner(pool: KnownPool, container: number, changed: () => void): Cancel;
  /** The highest revision applied; equal tables have equal versions and hashes. */
  readonly version: number;
  hash(): string;
};

/** The right of this node to serve its containers. The leader renews it; without renewal it ends by itself. */
export type ServingLease = {
  /** True while the lease holds; a caller that has just read the clock passes `nowMs`. */
  holds(nowMs?: number): boolean;
  /** Calls back when the lease starts to hold, and when it ends. */
  watch(changed: (holds: boolean) => void): Cancel;
};

export type StateEntry = { readonly key: string; readonly value: Uint8Array };

/** The log through which an owner writes the state of its container, in order and to every required replica. */
export type ContainerLog = {
  /**
   * Ends when every required replica has the commit as durable as the pool demands, in the order of the calls. FENCED:
   * another owner exists or may exist; nothing further is committed, and the outcome of this commit is unknown.
   * STORE_FULL and STORE_FAILED: neither this commit nor any after it has been written or will be.
   */
  commit(writes: readonly StoreWrite[], done: Done<void>): void;
  /** No commit is pending when it ends. The state stays on disk. */
  close(done: Done<void>): void;
};

export type OpenedLog = { readonly log: ContainerLog; readonly entries: readonly StateEntry[] };

/** The state of containers on this node, as owner and as replica. */
export type ContainerReplication = {
  /**
   * Opens the log of the container under the fence of the record, and reads its state. `lost` is called at most once,
   * when the log cannot go on: fenced, or the disk failed.
   */
  open(change: ContainerChange, lost: (reason: string) => void, done: Done<OpenedLog>): void;
  /** Every change of every container, in order: which nodes have replicas, and which owner may write to them. */
  changed(change: ContainerChange): void;
  /**
   * Updates the record of a container that this node owns under this fence; ends with FENCED if it no longer does.
   */
  updateRecord(
    container: Pick<ContainerChange, 'pool' | 'container'>,
    fence: ContainerRecord['fence'],
    change: (record: ContainerRecord) => ContainerRecord | undefined,
    done: Done<ContainerRecord>,
  ): void;
};

/** A call that has reached the presumed owner of its container. */
export type IncomingCall = {
  readonly pool: KnownPool;
  readonly container: number;
  readonly method: string;
  /** An encoded list. */
  readonly args: Uint8Array;
  readonly id: CallId;
  /** The lowest counter of this session for which its caller still waits. */
  readonly lowestPending: number;
  readonly remainingMs: number;
};

/** An encoded value, or a stream of them from a method that is an async generator. */
export type CallOutput = { readonly value: Uint8Array } | { readonly stream: AsyncIterable<Uint8Array> };

export type HostedContainer = {
  readonly pool: string;
  readonly id: number;
  readonly role: 'owner' | 'copy';
  readonly fence: string;
  readonly version: number;
  readonly inSync: boolean;
  /** The container is open and runs calls while the lease holds. Only of owners. */
  readonly isOpen?: boolean;
};

/** The containers that this node owns: opens, runs and closes them. */
export type ContainerHosting = {
  changed(change: ContainerChange): void;
  /**
   * Runs the call, or returns its remembered result. STALE_TABLE: not the owner. NO_QUORUM: the lease does not hold.
   * CAPACITY: the inbox is full. None of these has run the call. CALL_FAILED: the method threw, and changed nothing.
   * `done` may be called before this returns. A call that ended with NO_QUORUM or FENCED may go on; a retry gets its
   * first result.
   */
  call(call: IncomingCall, done: Done<CallOutput>): Cancel;
  /** The status of a call, for a caller without a reply. */
  callStatus(call: Pick<IncomingCall, 'pool' | 'container' | 'id'>): 'waiting' | 'running' | 'unknown';
  /** The lowest number of a container that is open on this node. */
  lowestOpen(pool: KnownPool): number | undefined;
  containers(): readonly HostedContainer[];
  /** Drains and closes all containers, within a bound. */
  stop(done: Done<void>): void;
};

/** A call before its route is resolved: of an application, a method of another container, or an operator. */
export type RoutedCall = {
  readonly pool: string;
  readonly method: string;
  readonly args: Uint8Array;
  readonly route: Route;
  readonly id: CallId;
  readonly lowestPending: number;
  readonly timeoutMs: number;
  readonly retryTimeoutMs?: number | undefined;
};

/** The outcome of a call in one container. */
export type ContainerCallResult = { readonly container: number } & (
  | { readonly ok: true; readonly value: Uint8Array }
  | {
      readonly ok: false;
      readonly code: string;
      readonly message: string;
      readonly stateChanged: StateChanged;
    }
);

/** `parts`: the results of several containers in order of their numbers, none missing, if this node cannot aggregate. */
export type CallResult = CallOutput | { readonly parts: readonly ContainerCallResult[] };

/** Finds the owners, sends, retries, combines results. Every call ends. */
export type ContainerCalls = {
  /** If some of several containers fail, the error is PARTIAL and its message names them. */
  call(call: RoutedCall, done: Done<CallResult>): Cancel;
  /** This node has confirmed the creation of the pool: calls wait until the address table has it. */
  expectPool(pool: string, major: number): void;
  /** A session with its own call ids, for methods and callbacks that call other containers. */
  session(name: string): CallSession;
};

export type CallSession = {
  call(
    call: { readonly pool: string; readonly method: string; readonly args: readonly unknown[]; readonly route: Route },
    options: CallOptions,
  ): Promise<unknown>;
};
