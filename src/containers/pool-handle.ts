/**
 * The object with one method per module method that an application holds. Turns `pool.hash('a').add(1)` into one plain
 * call. Knows nothing of owners or the wire.
 *
 * The methods of a module become a class once per definition, so a call costs two small objects and no lookup of names.
 */
import { RemusterError } from '../base/errors.ts';
import { namePattern } from '../base/ids.ts';
import type { CallOptions, Calls, FannedCalls, Methods, ModuleDefinition, PoolHandle, Route } from './module.ts';

export type HandleCall = {
  readonly pool: string;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly route: Route;
  /** The route names several containers: the result is that of the method's `aggregate`, or a list. */
  readonly isFanOut: boolean;
};

/** A method that is an async generator ends in an AsyncIterable, at once or by a promise; all others in a promise. */
export type InvokeCall = (call: HandleCall, options: CallOptions) => Promise<unknown> | AsyncIterable<unknown>;

/** Throws BAD_ARGUMENT for what cannot be the name of a pool. */
export function poolHandle<M extends Methods>(
  definition: ModuleDefinition<M>,
  pool: string,
  invoke: InvokeCall,
): PoolHandle<M> {
  if (!namePattern.test(pool)) throw new RemusterError('BAD_ARGUMENT', `"${pool}" cannot be the name of a pool`);
  return handleWith<M>(callsClassOf(definition), { pool, invoke, options: {} });
}

/** Is the method an async generator, so that its result is a flow of items? */
export function isStreamingMethod(method: Methods[string]): boolean {
  const run = typeof method === 'function' ? method : method.run;
  return Object.prototype.toString.call(run) === '[object AsyncGeneratorFunction]';
}

/** Where calls of one handle go. */
type Line = { readonly pool: string; readonly invoke: InvokeCall; readonly options: CallOptions };

type CallsClass = new (line: Line, route: Route, isFanned: boolean) => object;

/** No method can be called like a symbol, so these never stand in the way of one. */
const lineOf = Symbol('line');
const routeOf = Symbol('route');
const fannedOf = Symbol('fanned');

type Target = { readonly [lineOf]: Line; readonly [routeOf]: Route; readonly [fannedOf]: boolean };

const classes = new WeakMap<object, CallsClass>();

function callsClassOf(definition: ModuleDefinition): CallsClass {
  const known = classes.get(definition);
  if (known !== undefined) return known;
  const made = makeCallsClass(definition.methods);
  classes.set(definition, made);
  return made;
}

function makeCallsClass(methods: Methods): CallsClass {
  class ModuleCalls {
    readonly [lineOf]: Line;
    readonly [routeOf]: Route;
    readonly [fannedOf]: boolean;

    constructor(line: Line, route: Route, isFanned: boolean) {
      this[lineOf] = line;
      this[routeOf] = route;
      this[fannedOf] = isFanned;
    }
  }
  for (const [name, method] of Object.entries(methods)) {
    const isFlow = isStreamingMethod(method);
    const call = function (this: Target, ...args: readonly unknown[]): unknown {
      return isFlow ? flow(this, name, args) : send(this, name, args);
    };
    Object.defineProperty(ModuleCalls.prototype, name, { value: call, enumerable: true });
  }
  return ModuleCalls;
}

function send(target: Target, method: string, args: readonly unknown[]): ReturnType<InvokeCall> {
  const { pool, invoke, options } = target[lineOf];
  return invoke({ pool, method, args, route: target[routeOf], isFanOut: target[fannedOf] }, options);
}

/** Begins when somebody begins to read, as a generator does; who stops reading ends the call. */
async function* flow(target: Target, method: string, args: readonly unknown[]): AsyncGenerator {
  if (target[fannedOf]) throw new RemusterError('BAD_ARGUMENT', `${method} gives a flow: ask one container at a time`);
  const items = await send(target, method, args);
  if (!isFlow(items)) throw new RemusterError('INTERNAL', `${method} of another version gave no flow`);
  yield* items;
}

function isFlow(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function handleWith<M extends Methods>(Made: CallsClass, line: Line): PoolHandle<M> {
  const one = (route: Route): Calls<M> => new Made(line, route, false) as Calls<M>;
  const many = (route: Route): FannedCalls<M> => new Made(line, route, true) as FannedCalls<M>;
  const [everywhere, here, chosen] = [many({ broadcast: true }), one({ local: true }), one({ dynamic: true })];
  return {
    hash: (key) => one({ hash: key }),
    id: (container) => one({ id: container }),
    range: (first, count) => many({ range: [first, count] }),
    broadcast: () => everywhere,
    node: (name) => one({ node: name }),
    local: () => here,
    dynamic: () => chosen,
    with: (options) => handleWith<M>(Made, { ...line, options: { ...line.options, ...options } }),
  };
}
