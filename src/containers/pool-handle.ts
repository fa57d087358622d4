/**
 * The pool handle of an application: an object with the methods of the module. Turns `pool.hash('a').add(1)` into one
 * plain call. Knows nothing of owners or messages.
 *
 * The methods of a module become a class once per definition, so a call costs two small objects and no lookup of names.
 */
import { RemusterError } from '../base/errors.ts';
import { namePattern } from '../base/ids.ts';
import type {
  CallOptions,
  Calls,
  FannedCalls,
  Methods,
  MethodSpec,
  ModuleDefinition,
  PoolHandle,
  Route,
} from './module.ts';

export type HandleCall = {
  readonly pool: string;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly route: Route;
  /** The route names several containers: the result is that of the `aggregate` of the method, or a list. */
  readonly isFanOut: boolean;
  /** Of the method: for results of several containers that the node could not combine, because it lacks the module. */
  readonly aggregate: MethodSpec['aggregate'];
};

/** A method that is an async generator returns an AsyncIterable, perhaps in a promise; all others return a promise. */
export type InvokeCall = (call: HandleCall, options: CallOptions) => Promise<unknown> | AsyncIterable<unknown>;

/** Throws BAD_ARGUMENT for an invalid pool name. */
export function poolHandle<M extends Methods>(
  definition: ModuleDefinition<M>,
  pool: string,
  invoke: InvokeCall,
): PoolHandle<M> {
  if (!namePattern.test(pool)) throw new RemusterError('BAD_ARGUMENT', `"${pool}" cannot be the name of a pool`);
  return handleWith<M>(callsClassOf(definition), { pool, invoke, options: {} });
}

/** True if the method is an async generator, so that its result is a stream of items. */
export function isStreamingMethod(method: Methods[string]): boolean {
  const run = typeof method === 'function' ? method : method.run;
  return Object.prototype.toString.call(run) === '[object AsyncGeneratorFunction]';
}

/** What all calls of one handle share. */
type HandleContext = { readonly pool: string; readonly invoke: InvokeCall; readonly options: CallOptions };

type CallsClass = new (context: HandleContext, route: Route, isFanOut: boolean) => object;

/** Symbols, because they cannot clash with the names of methods. */
const contextOf = Symbol('context');
const routeOf = Symbol('route');
const fanOutOf = Symbol('fanOut');

type Target = { readonly [contextOf]: HandleContext; readonly [routeOf]: Route; readonly [fanOutOf]: boolean };

const classes = new WeakMap<object, CallsClass>();

function callsClassOf(definition: ModuleDefinition): CallsClass {
  const known = classes.get(definition);
  if (known !== undefined) return known;
  const created = createCallsClass(definition.methods);
  classes.set(definition, created);
  return created;
}

function createCallsClass(methods: Methods): CallsClass {
  class ModuleCalls {
    readonly [contextOf]: HandleContext;
    readonly [routeOf]: Route;
    readonly [fanOutOf]: boolean;

    constructor(context: HandleContext, route: Route, isFanOut: boolean) {
      this[contextOf] = context;
      this[routeOf] = route;
      this[fanOutOf] = isFanOut;
    }
  }
  for (const [name, method] of Object.entries(methods)) {
    const isStream = isStreamingMethod(method);
    const aggregate = typeof method === 'object' ? method.aggregate : undefined;
    const call = function (this: Target, ...args: readonly unknown[]): unknown {
      return isStream ? openStream(this, name, args) : send(this, name, args, aggregate);
    };
    Object.defineProperty(ModuleCalls.prototype, name, { value: call, enumerable: true });
  }
  return ModuleCalls;
}

function send(
  target: Target,
  method: string,
  args: readonly unknown[],
  aggregate?: MethodSpec['aggregate'],
): ReturnType<InvokeCall> {
  const { pool, invoke, options } = target[contextOf];
  return invoke({ pool, method, args, route: target[routeOf], isFanOut: target[fanOutOf], aggregate }, options);
}

/** Starts the call at the first read, as a generator does; a reader that stops ends the call. */
async function* openStream(target: Target, method: string, args: readonly unknown[]): AsyncGenerator {
  if (target[fanOutOf])
    throw new RemusterError('BAD_ARGUMENT', `${method} returns a result stream: call one container at a time`);
  const items = await send(target, method, args);
  if (!isStream(items))
    throw new RemusterError(
      'INTERNAL',
      `${method} returned no result stream: the node runs another version of the module`,
    );
  yield* items;
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function handleWith<M extends Methods>(HandleClass: CallsClass, context: HandleContext): PoolHandle<M> {
  const single = (route: Route): Calls<M> => new HandleClass(context, route, false) as Calls<M>;
  const fanOut = (route: Route): FannedCalls<M> => new HandleClass(context, route, true) as FannedCalls<M>;
  const [everywhere, here, chosen] = [fanOut({ broadcast: true }), single({ local: true }), single({ dynamic: true })];
  return {
    hash: (key) => single({ hash: key }),
    id: (container) => single({ id: container }),
    range: (first, count) => fanOut({ range: [first, count] }),
    broadcast: () => everywhere,
    node: (name) => single({ node: name }),
    local: () => here,
    dynamic: () => chosen,
    with: (options) => handleWith<M>(HandleClass, { ...context, options: { ...context.options, ...options } }),
  };
}
