/**
 * The types through which table, hosting, replication and calls see each other. Types only; it imports none of them.
 *
 *   registry --records--> table (log, then memory) --changes--> hosting --commits--> copies --> disks here and elsewhere
 *                           ^                                      ^
 *   somebody's call --> calls (routes, sends, resends) --calls-----+   only while the serving lease holds
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
  /** Of the registry: the version of the table's entry, and the guard of whoever wants to change the record. */
  readonly revision: number;
};

export type OwnedContainerChange = ContainerChange & { readonly record: ContainerRecord };

/**
 * Who owns what, as far as this node knows. An entry is on this node's disk before it is here. Perhaps old: whoever
 * acts on it is corrected by the owner, and by the fence.
 */
export type AddressTable = {
  pool(name: string): KnownPool | undefined;
  poolByNumber(major: number): KnownPool | undefined;
  pools(): readonly KnownPool[];
  /** False until the registry has said it all: a pool that it lacks may exist. */
  readonly isConfirmed?: boolean;
  /** Undefined: nobody owns it, or we do not know. */
  ownerOf(pool: KnownPool, container: number): NodeId | undefined;
  /** 0 when we do not know the container. */
  versionOf(pool: KnownPool, container: number): number;
  /** Somebody who knows better has told us; ignored if it is not newer. */
  addOwnerHint(pool: KnownPool, container: number, owner: NodeId | undefined, version: number): void;
  /** Calls back when the owner of that container changes, until cancelled. */
  watchOwner(pool: KnownPool, container: number, changed: () => void): Cancel;
  /** Of everything applied so far: equal tables have equal versions and hashes. */
  readonly version: number;
  hash(): string;
};

/**
 * May this node serve what it owns, at this instant? It asks the leader again and again, and stops by itself in time.
 */
export type ServingLease = {
  /** Now; whoever has just looked at the clock says what it told. */
  holds(nowMs?: number): boolean;
  /** Calls back when it begins to hold, and when it ends. */
  watch(changed: (holds: boolean) => void): Cancel;
};

export type StateEntry = { readonly key: string; readonly value: Uint8Array };

/** What an owner holds of the state of its container: everything written through it is in order, and in every copy. */
export type ContainerLog = {
  /**
   * Ends when every copy in sync has it as durable as the pool demands, always in the order of the calls. FENCED:
   * another owner exists, or may exist; nothing further will be committed, and this may or may not have been.
   * STORE_FULL and STORE_FAILED: it has not been and will not be, nor anything behind it.
   */
  commit(writes: readonly StoreWrite[], done: Done<void>): void;
  /** No commit is under way when it ends. The state stays on the disk. */
  close(done: Done<void>): void;
};

export type OpenedLog = { readonly log: ContainerLog; readonly entries: readonly StateEntry[] };

/** The state of containers on this node's disk, as owner and as copy of others. */
export type ContainerReplication = {
  /**
   * Becomes the writing end of the container under the record's fence, and reads its state. `lost` is called at most
   * once, when the log cannot go on: fenced, or the disk failed.
   */
  open(change: ContainerChange, lost: (reason: string) => void, done: Done<OpenedLog>): void;
  /** Every change of every container, in order: who is to hold copies, who may write to them. */
  changed(change: ContainerChange): void;
  /**
   * Changes the record of a container that this node owns under this fence; ends with FENCED when it no longer does.
   */
  updateRecord(
    container: Pick<ContainerChange, 'pool' | 'container'>,
    fence: ContainerRecord['fence'],
    change: (record: ContainerRecord) => ContainerRecord | undefined,
    done: Done<ContainerRecord>,
  ): void;
};

/** A call that has reached the node that owns its container, or should. */
export type IncomingCall = {
  readonly pool: KnownPool;
  readonly container: number;
  readonly method: string;
  /** An encoded list. */
  readonly args: Uint8Array;
  readonly id: CallId;
  /** The lowest counter of this session to which its caller still waits for an answer. */
  readonly lowestPending: number;
  readonly remainingMs: number;
};

/** An encoded value, or a flow of them from a method that is an async generator. */
export type CallOutput = { readonly value: Uint8Array } | { readonly stream: AsyncIterable<Uint8Array> };

export type HostedContainer = {
  readonly pool: string;
  readonly id: number;
  readonly role: 'owner' | 'copy';
  readonly fence: string;
  readonly version: number;
  readonly inSync: boolean;
  /** Calls run in it now, as far as the lease lets them. Only of owners. */
  readonly isOpen?: boolean;
};

/** The containers that this node owns: opens, runs and closes them. */
export type ContainerHosting = {
  changed(change: ContainerChange): void;
  /**
   * Runs it, or gives the answer of the first time. STALE_TABLE: not ours. NO_QUORUM: ours, but the lease does not
   * hold. CAPACITY: its inbox is full. None of these has run it. CALL_FAILED: the method threw, and changed nothing. It
   * may end before this returns, and what ended in NO_QUORUM or FENCED may go on: sent again, it gets the first answer.
   */
  call(call: IncomingCall, done: Done<CallOutput>): Cancel;
  /** For a caller that has heard nothing for a while. */
  callStatus(call: Pick<IncomingCall, 'pool' | 'container' | 'id'>): 'waiting' | 'running' | 'unknown';
  /** The container with the lowest number that is open here. */
  lowestOpen(pool: KnownPool): number | undefined;
  containers(): readonly HostedContainer[];
  /** Lets everything go, in good order, within a bound. */
  stop(done: Done<void>): void;
};

/** A call as somebody wants it made: an application, a method of another container, an operator. */
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

/** What one container answered. */
export type ContainerCallResult = { readonly container: number } & (
  | { readonly ok: true; readonly value: Uint8Array }
  | {
      readonly ok: false;
      readonly code: string;
      readonly message: string;
      readonly stateChanged: StateChanged;
    }
);

/**
 * `parts` when several containers were asked and nobody here can aggregate; in the order of their numbers, none
 * missing.
 */
export type CallResult = CallOutput | { readonly parts: readonly ContainerCallResult[] };

/** Finds the owners, sends, sends again, gathers. Every call ends. */
export type ContainerCalls = {
  /** With several containers asked and one of them failed, the error is PARTIAL and its message names the parts. */
  call(call: RoutedCall, done: Done<CallResult>): Cancel;
  /** Somebody is told by this node that the pool with that number is there: calls of it wait until the table has it. */
  expectPool(pool: string, major: number): void;
  /** For methods and callbacks that call others: numbers its own calls. */
  session(name: string): CallSession;
};

export type CallSession = {
  call(
    call: { readonly pool: string; readonly method: string; readonly args: readonly unknown[]; readonly route: Route },
    options: CallOptions,
  ): Promise<unknown>;
};
