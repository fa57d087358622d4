/**
 * What a user writes: a module, its methods, and the context that they get. Types and a check of the definition; runs
 * nothing.
 *
 * A pool is a set of containers of one module; a container is one shard: a number, code and state. One writing call at
 * a time runs in a container; what it changed becomes visible and durable together when it returns, or not at all when
 * it throws. Calls that only read may overlap.
 */
import { type ErrorCode, RemusterError, isRemusterError } from '../base/errors.ts';
import { namePattern } from '../base/ids.ts';
import type { LogLevel } from '../base/ports.ts';

/**
 * Chooses the containers of a call. A hash names a container, never a node: strings are hashed, numbers used directly.
 */
export type Route =
  | { readonly hash: string | number }
  | { readonly id: number }
  /** `[first, count]`. */
  | { readonly range: readonly [number, number] }
  | { readonly broadcast: true }
  /** The lowest-numbered container that the named node, or this node, owns. */
  | { readonly node: string }
  | { readonly local: true }
  /** The `route` function of the module decides. */
  | { readonly dynamic: true };

/**
 * The state of a container: an ordered map of strings to values: JSON, and within it bigint, Uint8Array, Date,
 * undefined.
 */
export type State = {
  // The public contract has `(ctx.state.get('n') ?? 0) + by`: only the module knows the types of its values.
  // oxlint-disable-next-line typescript/no-explicit-any, typescript/no-unnecessary-type-parameters
  get<T = any>(key: string): T | undefined;
  has(key: string): boolean;
  set(key: string, value: unknown): void;
  delete(key: string): boolean;
  /** In the order of the keys' UTF-8 bytes; at most `limit` (1,000 if left out). */
  // oxlint-disable-next-line typescript/no-explicit-any, typescript/no-unnecessary-type-parameters
  entries<T = any>(range?: StateRange): readonly (readonly [key: string, value: T])[];
  readonly size: number;
};

export type StateRange = {
  readonly prefix?: string;
  readonly from?: string;
  readonly to?: string;
  readonly limit?: number;
  readonly reverse?: boolean;
};

/** Timers are part of the state: they commit with the call that sets them, survive crashes and moves, and run once. */
export type Timers = {
  /** Calls a method of this container after a delay; replaces a timer of the same name. */
  set(name: string, afterMs: number, method: string, ...args: readonly unknown[]): void;
  cancel(name: string): void;
};

export type PoolInfo = {
  readonly name: string;
  readonly containers: number;
  /** As given when the pool was created. */
  readonly params: unknown;
};

/** The first argument of every method and callback; valid until it returns. */
export type Context = {
  readonly state: State;
  readonly timers: Timers;
  readonly pool: PoolInfo;
  /** The number of this container. */
  readonly container: number;
  /** The name of the node it runs on. */
  readonly node: string;
  /** The id of this call; a retry has the same one. Empty in callbacks. */
  readonly callId: string;
  /** Time until the deadline of the caller. */
  remainingMs(): number;
  /** Aborted when the caller cancels, its deadline passes, or the container closes. */
  readonly signal: AbortSignal;
  /** Milliseconds since 1970, for display and expiry; may jump. */
  now(): number;
  /** From 0 up to 1. */
  random(): number;
  /** Calls another container, of any pool. A call of the own container would wait for itself until its deadline. */
  call<M extends Methods>(definition: ModuleDefinition<M>, pool: string): PoolHandle<M>;
  log(level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>): void;
};

// Arguments and results are checked where a method is called; here any signature is accepted.
// oxlint-disable-next-line typescript/no-explicit-any
type Run = (ctx: Context, ...args: any[]) => unknown;
// oxlint-disable-next-line typescript/no-explicit-any
type Aggregate = (parts: any[]) => unknown;

export type MethodSpec = {
  /** May overlap with other calls; `set` throws. */
  readonly readonly?: boolean;
  readonly run: Run;
  /** Combines the results of several containers, in the order of their numbers. */
  readonly aggregate?: Aggregate;
};

export type Methods = Readonly<Record<string, Run | MethodSpec>>;

/** A node in the arguments of callbacks. */
export type NodeInfo = { readonly id: string; readonly name: string; readonly containers: number };

/**
 * Called in this order: `init`, `restart` or `recover` ends before the first call; `workRemaining` is 0 before
 * `migrate` starts; after `migrate` no call runs on this node. Their changes are committed before the next step. If
 * `restart` or `recover` is missing and there is no state, `init` is called.
 */
export type Callbacks = {
  /** The container is new. */
  init?(ctx: Context): void | Promise<void>;
  /** The same node opens the container again, with the state from its disk. */
  restart?(ctx: Context): void | Promise<void>;
  /** The former owner is gone: another node opens the container from its replica. */
  recover?(ctx: Context): void | Promise<void>;
  /** The container moves to that node; the last call on this node has ended. */
  migrate?(ctx: Context, to: NodeInfo): void | Promise<void>;
  /** Work outside of calls that must end before a move; 0: none. */
  workRemaining?(ctx: Context): number;
  /** A node has joined. */
  expand?(ctx: Context, node: NodeInfo): void | Promise<void>;
  /**
   * On the leader: where to recover the container, best first. Candidates have all of its state; empty: the leader
   * decides.
   */
  scheduleRecover?(container: number, candidates: readonly NodeInfo[]): readonly string[];
};

export type ModuleSpec<M extends Methods> = Callbacks & {
  readonly methods: M;
  /** Chooses the route of a dynamic call, on the node that routes it. */
  readonly route?: (method: string, args: readonly unknown[], pool: PoolInfo) => Route;
};

export type ModuleDefinition<M extends Methods = Methods> = ModuleSpec<M> & { readonly name: string };

type RunOf<T> = T extends Run ? T : T extends { readonly run: infer R } ? R : never;
type ArgsOf<T> = RunOf<T> extends (ctx: Context, ...args: infer A) => unknown ? A : never;
type ResultOf<T> = RunOf<T> extends (...args: never) => infer R ? Item<Awaited<R>> : never;
/** A method that is an async generator returns a stream of its items. */
type Item<R> = R extends AsyncGenerator<infer I> ? AsyncIterable<I> : R;
type FannedOf<T> = T extends { readonly aggregate: (parts: never[]) => infer R } ? Awaited<R> : ResultOf<T>[];
type Answer<R> = R extends AsyncIterable<unknown> ? R : Promise<R>;

/** The methods of one container, as a caller sees them. */
export type Calls<M extends Methods> = {
  readonly [K in keyof M]: (...args: ArgsOf<M[K]>) => Answer<ResultOf<M[K]>>;
};

/** The methods of several containers at once: one result if the method has an `aggregate`, otherwise a list of them. */
export type FannedCalls<M extends Methods> = {
  readonly [K in keyof M]: (...args: ArgsOf<M[K]>) => Promise<FannedOf<M[K]>>;
};

export type CallOptions = {
  readonly timeoutMs?: number;
  /** How long the call is retried while no owner confirms it; then NETWORK_TIMEOUT. */
  readonly retryTimeoutMs?: number;
  /** Calls with the same id run once and get the same result. */
  readonly callId?: string;
  readonly signal?: AbortSignal;
};

export type PoolHandle<M extends Methods> = {
  hash(key: string | number): Calls<M>;
  id(container: number): Calls<M>;
  range(first: number, count: number): FannedCalls<M>;
  broadcast(): FannedCalls<M>;
  node(name: string): Calls<M>;
  local(): Calls<M>;
  dynamic(): Calls<M>;
  /** A handle of the same pool with these options. */
  with(options: CallOptions): PoolHandle<M>;
};

export function module<const M extends Methods>(name: string, spec: ModuleSpec<M>): ModuleDefinition<M> {
  if (!namePattern.test(name)) throw new RemusterError('BAD_ARGUMENT', `"${name}" cannot be the name of a module`);
  const methods = Object.keys(spec.methods);
  if (methods.length === 0)
    throw new RemusterError('BAD_ARGUMENT', `module "${name}" has no methods: define at least one`);
  const reserved = methods.find((method) => method.startsWith('$'));
  if (reserved !== undefined)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `method ${reserved} cannot start with "$": that is reserved for methods of all modules`,
    );
  return { ...spec, name };
}

/**
 * A method that throws has changed nothing. The caller gets CALL_FAILED with the message of the exception, unless that
 * is a RemusterError with one of these codes, which the caller gets unchanged.
 */
const thrownCodes = [
  'BAD_ARGUMENT',
  'CAPACITY',
  'FORBIDDEN',
  'PRECONDITION',
  'TOO_LARGE',
  'UNKNOWN_KEY',
] as const satisfies readonly ErrorCode[];
export type ThrownCode = (typeof thrownCodes)[number];

/** For a method that refuses: `throw methodError('PRECONDITION', 'the account is closed')`. Its changes are dropped. */
export function methodError(code: ThrownCode, message: string): RemusterError {
  return new RemusterError(code, message, 'no');
}

/** The error that the caller gets for an exception of the method. */
export function toMethodError(thrown: unknown): RemusterError {
  if (isRemusterError(thrown) && (thrownCodes as readonly string[]).includes(thrown.code)) return thrown;
  return new RemusterError('CALL_FAILED', thrown instanceof Error ? thrown.message : String(thrown));
}

export function isModule(value: unknown): value is ModuleDefinition {
  return typeof value === 'object' && value !== null && 'methods' in value && 'name' in value;
}
