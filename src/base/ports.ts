/**
 * Ports of a node to the outside world: Clock, Datagrams, Streams, Files, Store, Threads, Runners. Implemented by io/ and
 * by the simulator. A callback is called exactly once, and never before the call that received it has returned.
 *
 * Results are callbacks, not promises: a result becomes the input of a machine, and a simulator that calls back in a
 * defined order is reproducible without control over the microtask queue.
 */
import type { Done } from './errors.ts';
import type { NodeId } from './ids.ts';

/** Cancels a pending operation. Idempotent, and harmless after the end. */
export type Cancel = () => void;

/** `nowMs` is monotonic. `wallMs` is for logs and events only, never for a decision. */
export type Clock = {
  nowMs(): number;
  schedule(delayMs: number, run: () => void): Cancel;
  wallMs(): number;
};

export type Role = 'gate' | 'manager' | 'worker' | 'client';

export type Address = { readonly host: string; readonly port: number };

/** The authenticated identity of a peer. `generation` grows with each start of the same node. */
export type Identity = Address & {
  readonly id: NodeId;
  readonly name: string;
  readonly generation: number;
  readonly roles: readonly Role[];
  readonly dc: string;
};

/** A node id with the address to reach it, and its generation if known. */
export type Peer = Address & { readonly id: NodeId; readonly generation?: number | undefined };

/** Sealed datagrams between members. They may be lost, duplicated, delayed or reordered, but never altered. */
export type Datagrams = {
  /** At most `datagramBytesMax` bytes; more is a bug of the caller. */
  send(to: Peer, body: Uint8Array): void;
  /** `body` belongs to the port and is only valid during the call. */
  receive(handler: (from: Identity, body: Uint8Array) => void): void;
  close(done: Done<void>): void;
};

export const datagramBytesMax = 1_300;

/** Requests, messages and byte streams over one sealed connection per peer, opened on demand and kept. */
export type Streams = {
  /** Ends in a reply, or in an error at the latest after `timeoutMs`. Cancelling ends it with CANCELLED. */
  request(to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel;
  /** One way. False: the queue to that peer is full and nothing was queued; wait for `drained`. */
  notify(to: Address, body: Uint8Array): boolean;
  /** Calls back when the queue to that peer has room again, or when the connection is lost. */
  drained(to: Address, done: () => void): void;
  /** A bidirectional stream of chunks with flow control, for data too large for one message. */
  open(to: Address, opening: Uint8Array, events: ByteStreamEvents): ByteStream;
  serve(service: StreamService): void;
  /** Reports connections that opened, closed or were refused: hints for membership, never proof of death. */
  watch(handler: (change: ConnectionChange) => void): void;
  close(done: Done<void>): void;
};

/** The reason when the host answered that no process listens on the port. Other reasons prove nothing. */
export const portClosedReason = 'refused';

export type ConnectionChange =
  | { readonly kind: 'connected'; readonly peer: Identity }
  /** `graceful`: this node or the peer closed it on purpose. Otherwise it broke, or the process of the peer ended. */
  | { readonly kind: 'disconnected'; readonly peer: Identity; readonly reason: string; readonly graceful: boolean }
  /** No connection was established. The reason is `portClosedReason`, or a sentence for people. */
  | { readonly kind: 'refused'; readonly address: Address; readonly reason: string };

/** Handlers for what peers send to this node. Bodies are only valid during the call. */
export type StreamService = {
  /** `remainingMs`: time until the deadline of the caller, on arrival. */
  request(from: Identity, body: Uint8Array, remainingMs: number, reply: Done<Uint8Array>): void;
  notify(from: Identity, body: Uint8Array): void;
  open(from: Identity, opening: Uint8Array, stream: ByteStream): ByteStreamEvents;
};

export type ByteStream = {
  /** False: no credit left, nothing was written; wait for `writable`. */
  write(chunk: Uint8Array): boolean;
  end(): void;
  abort(reason: string): void;
};

export type ByteStreamEvents = {
  /** The chunk is only valid during the call; the sender gets new credit when the call returns. */
  chunk(bytes: Uint8Array): void;
  writable(): void;
  /** Both directions ended, or the stream broke. */
  ended(outcome: Parameters<Done<void>>[0]): void;
};

/** Plain files below the node's data directory. Paths are relative, with `/`, without `..`. */
export type Files = {
  read(path: string, done: Done<Uint8Array | undefined>): void;
  /** Atomic: replaces the whole file or keeps the old one. Durable when done. */
  replace(path: string, bytes: Uint8Array, done: Done<void>): void;
  /** Durable only after `sync`; a crash may leave a torn tail. */
  append(path: string, bytes: Uint8Array, done: Done<void>): void;
  sync(path: string, done: Done<void>): void;
  truncate(path: string, sizeBytes: number, done: Done<void>): void;
  list(directory: string, done: Done<readonly string[]>): void;
  remove(path: string, done: Done<void>): void;
};

export type StoreWrite = { readonly key: string; readonly value: Uint8Array | null };
/** Many writes encoded as one byte string, each key with the prefix in front; see row-codec.ts. */
export type StoreRows = { readonly prefix: string; readonly packed: Uint8Array };
export type StoreEntry = { readonly key: string; readonly value: Uint8Array };

/** An ordered key-value store. A batch is atomic, and durable when done. */
export type Store = {
  write(batch: readonly StoreWrite[], done: Done<void>): void;
  /** Entries with `from <= key < to`, in the order of their UTF-8 bytes, at most `limit`. */
  read(
    range: { readonly from: string; readonly to: string; readonly limit: number },
    done: Done<readonly StoreEntry[]>,
  ): void;
  close(done: Done<void>): void;
};

/** A store that also accepts rows that are packed already. */
export type RowStore = Omit<Store, 'write'> & {
  write(batch: readonly (StoreWrite | StoreRows)[], done: Done<void>): void;
};

/** Code for another thread or process: io/ imports `moduleUrl` there and calls its export `main`, simulation/ calls `main` here. */
export type Program = { readonly moduleUrl: string; readonly main: (channel: ProgramEndpoint) => void };

/** The program's end of the channel to its parent. */
export type ProgramEndpoint = {
  readonly data: Uint8Array;
  readonly clock: Clock;
  /** `isMore`: another message follows within this turn, so both may be sent together. */
  send(body: Uint8Array, isMore?: boolean): void;
  receive(handler: (body: Uint8Array) => void): void;
};

export type ProgramEvents = {
  message(body: Uint8Array): void;
  /** Called once, as the last event. */
  exited(reason: string): void;
};

export type RunningProgram = {
  send(body: Uint8Array): void;
  kill(): void;
  /** Revokes network access for good, before any message sent afterwards arrives. Not supported on every platform. */
  denyNetwork?(): void;
};

/** Threads of this process, for code of this package. */
export type Threads = {
  start(
    spec: { readonly name: string; readonly program: Program; readonly data: Uint8Array },
    events: ProgramEvents,
  ): RunningProgram;
};

export type RunnerLimits = {
  readonly memoryBytesMax: number;
  readonly lifetimeMsMax: number;
  readonly network: boolean;
  /** It exits by itself when its parent stalls for so long: the cluster may have declared the parent dead meanwhile. */
  readonly parentStallMsMax?: number;
};

/** Child processes without rights, for user code. */
export type Runners = {
  start(
    spec: {
      readonly name: string;
      readonly program: Program;
      readonly data: Uint8Array;
      readonly limits: RunnerLimits;
    },
    events: ProgramEvents,
  ): RunningProgram;
};

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Log lines for people. Fields are data; the implementation escapes them. */
export type Log = (level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>) => void;
