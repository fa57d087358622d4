/**
 * What a node may ask of the outside world: Clock, Datagrams, Streams, Files, Store, Threads, Runners. A callback is
 * called exactly once, never before the call returns.
 *
 * Endings are callbacks, not promises: an ending becomes the input of a machine, and a simulated world that calls back
 * in a defined order needs no microtask queue to be reproducible. A callback is called exactly once, and never before
 * the call that received it has returned.
 */
import type { Done } from './errors.ts';
import type { NodeId } from './ids.ts';

/** Stops what has not happened yet. Calling it late or twice is harmless. */
export type Cancel = () => void;

/** Time that only moves forward. `wallMs` is for people (logs, events) and never for a decision. */
export type Clock = {
  nowMs(): number;
  schedule(delayMs: number, run: () => void): Cancel;
  wallMs(): number;
};

export type Role = 'gate' | 'manager' | 'worker' | 'client';

export type Address = { readonly host: string; readonly port: number };

/** Who somebody proved to be. `generation` grows with each start of the same node. */
export type Identity = Address & {
  readonly id: NodeId;
  readonly name: string;
  readonly generation: number;
  readonly roles: readonly Role[];
  readonly dc: string;
};

/** Somebody whose id is already known, with the place to reach it, and in which of its lives if that is known too. */
export type Peer = Address & { readonly id: NodeId; readonly generation?: number | undefined };

/** Sealed datagrams between members. Each may be lost, doubled, delayed or overtaken; none is altered. */
export type Datagrams = {
  /** At most `datagramBytesMax` bytes; more is a programmer's mistake. */
  send(to: Peer, body: Uint8Array): void;
  /** `body` belongs to the port and is only valid during the call. */
  receive(handler: (from: Identity, body: Uint8Array) => void): void;
  close(done: Done<void>): void;
};

export const datagramBytesMax = 1_300;

/** An exchange over a sealed connection that is opened on demand, shared by all and kept. */
export type Streams = {
  /** Ends in a reply, or in an error at the latest after `timeoutMs`. Cancelling ends it with CANCELLED. */
  request(to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel;
  /** One way. False means that the queue to that peer is full and nothing was queued: wait for `drained`. */
  notify(to: Address, body: Uint8Array): boolean;
  /** Calls back when the queue to that peer has room again, or the connection is gone. */
  drained(to: Address, done: () => void): void;
  /** A flow of chunks in both directions with flow control, for what is too large for one message. */
  open(to: Address, opening: Uint8Array, events: ByteStreamEvents): ByteStream;
  serve(service: StreamService): void;
  /** Tells of connections that came up, went down or were refused: hints for membership, no verdicts. */
  watch(handler: (change: ConnectionChange) => void): void;
  close(done: Done<void>): void;
};

/** The reason of a refusal that came from the host itself: it runs, and nobody listens there. Others prove nothing. */
export const portClosedReason = 'refused';

export type ConnectionChange =
  | { readonly kind: 'connected'; readonly peer: Identity }
  /** `wanted`: we let it go, or the peer said goodbye first. Otherwise it broke, or the peer's process is gone. */
  | { readonly kind: 'disconnected'; readonly peer: Identity; readonly reason: string; readonly graceful: boolean }
  /** No connection came about. The reason is `portClosedReason`, or a sentence for people. */
  | { readonly kind: 'refused'; readonly address: Address; readonly reason: string };

/** What this node does with what others ask of it. Bodies are only valid during the call. */
export type StreamService = {
  /** `remainingMs` is what is left of the caller's deadline on arrival. */
  request(from: Identity, body: Uint8Array, remainingMs: number, reply: Done<Uint8Array>): void;
  notify(from: Identity, body: Uint8Array): void;
  open(from: Identity, opening: Uint8Array, stream: ByteStream): ByteStreamEvents;
};

export type ByteStream = {
  /** False means: no credit left, nothing was taken; wait for `writable`. */
  write(chunk: Uint8Array): boolean;
  end(): void;
  abort(reason: string): void;
};

export type ByteStreamEvents = {
  /** The chunk is only valid during the call; the sender gets new credit when the call returns. */
  chunk(bytes: Uint8Array): void;
  writable(): void;
  /** Both directions are over, or the stream broke. */
  ended(outcome: Parameters<Done<void>>[0]): void;
};

/** Plain files below the node's data directory. Paths are relative, with `/`, without `..`. */
export type Files = {
  read(path: string, done: Done<Uint8Array | undefined>): void;
  /** Replaces the whole file or leaves the old one; durable when done. */
  replace(path: string, bytes: Uint8Array, done: Done<void>): void;
  /** Adds to the end; durable only after `sync`, and a crash may tear the tail. */
  append(path: string, bytes: Uint8Array, done: Done<void>): void;
  sync(path: string, done: Done<void>): void;
  truncate(path: string, sizeBytes: number, done: Done<void>): void;
  list(directory: string, done: Done<readonly string[]>): void;
  remove(path: string, done: Done<void>): void;
};

export type StoreWrite = { readonly key: string; readonly value: Uint8Array | null };
/** Many of them in one piece, each key behind the prefix; see packed-rows.ts. */
export type StoreRows = { readonly prefix: string; readonly packed: Uint8Array };
export type StoreEntry = { readonly key: string; readonly value: Uint8Array };

/** A small ordered key space: a batch is written whole or not at all, and is durable when done. */
export type Store = {
  write(batch: readonly StoreWrite[], done: Done<void>): void;
  /** Entries with `from <= key < to`, in order of their UTF-8 bytes, at most `limit`. */
  read(
    range: { readonly from: string; readonly to: string; readonly limit: number },
    done: Done<readonly StoreEntry[]>,
  ): void;
  close(done: Done<void>): void;
};

/** One that also takes rows which are packed already. */
export type RowStore = Omit<Store, 'write'> & {
  write(batch: readonly (StoreWrite | StoreRows)[], done: Done<void>): void;
};

/** Code for another thread or process: io/ imports `moduleUrl` there and calls its export `main`, simulation/ calls `main` here. */
export type Program = { readonly moduleUrl: string; readonly main: (channel: ProgramEndpoint) => void };

/** One end of the line between a program and the one who started it. */
export type ProgramEndpoint = {
  readonly data: Uint8Array;
  readonly clock: Clock;
  /** `isMore`: another one follows within this turn, and they may go out together. */
  send(body: Uint8Array, isMore?: boolean): void;
  receive(handler: (body: Uint8Array) => void): void;
};

export type ProgramEvents = {
  message(body: Uint8Array): void;
  /** Called once, whatever the reason; nothing comes after it. */
  exited(reason: string): void;
};

export type RunningProgram = {
  send(body: Uint8Array): void;
  kill(): void;
  /** Takes away the right to use the network, for good: it has none when it gets what is sent afterwards. Not everywhere. */
  denyNetwork?(): void;
};

/** Threads of this process, for our own code. */
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
  /** It ends by itself when the one who started it stands still for so long; that one may have been given up meanwhile. */
  readonly parentStallMsMax?: number;
};

/** Child processes without rights, for users' code. */
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

/** Lines for people. Fields are data; the implementation escapes them. */
export type Log = (level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>) => void;
