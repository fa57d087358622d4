/** `POST /v1/call`: arguments and result as JSON. A flow is collected into one reply, within bounds. */
import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import type { CallSession, ContainerCalls } from '../../containers/contract.ts';
import type { CallOptions, Route } from '../../containers/module.ts';
import { argumentsOfBody } from '../admin/admin-context.ts';
import { objectReply } from './replies.ts';
import { encodeBase64 } from '../../base/base64.ts';
import type { CommandArguments } from '../control-plane/command-arguments.ts';

/** What is gathered of a flow for one answer. */
const itemsMax = 10_000;
const itemsCharactersMax = 10_000_000;
/** Below the time after which the server answers by itself. */
const timeoutMsMax = 110_000;

const shape =
  '{"pool", "method", "args"?: [...], "route": {hash, id, range, broadcast, node, local or dynamic}, "callId"?, "timeoutMs"?}';

/** `calls` are undefined on a node that has nothing to do with containers. */
export function callRoutes(calls: () => Pick<ContainerCalls, 'session'> | undefined): readonly ApiRoute[] {
  let session: CallSession | undefined;
  const handler: ApiRoute['handler'] = async (request) => {
    session ??= calls()?.session('http');
    return await call(session, request);
  };
  return [{ method: 'POST', path: '/v1/call', handler }];
}

async function call(session: CallSession | undefined, { body }: ApiRequest): Promise<ApiResponse> {
  if (session === undefined) throw new RemusterError('PRECONDITION', 'this node takes no part in containers', 'no');
  const words = argumentsOfBody(body);
  const { pool, method, args = [] } = words;
  if (typeof pool !== 'string' || typeof method !== 'string' || !Array.isArray(args)) {
    throw new RemusterError('BAD_ARGUMENT', `the body must be ${shape}`);
  }
  const wanted = { pool, method, args: args as readonly unknown[], route: routeIn(words['route']) };
  const result = await session.call(wanted, optionsIn(words));
  return objectReply({ result: isFlow(result) ? await gathered(result) : toPlainJson(result) });
}

function optionsIn({ callId, timeoutMs, retryTimeoutMs }: CommandArguments): CallOptions {
  if (callId !== undefined && typeof callId !== 'string') throw new RemusterError('BAD_ARGUMENT', 'callId is a text');
  const limits = {
    timeoutMs: durationIn('timeoutMs', timeoutMs),
    retryTimeoutMs: durationIn('retryTimeoutMs', retryTimeoutMs),
  };
  return {
    ...(callId === undefined ? {} : { callId }),
    ...(limits.timeoutMs === undefined ? {} : { timeoutMs: limits.timeoutMs }),
    ...(limits.retryTimeoutMs === undefined ? {} : { retryTimeoutMs: limits.retryTimeoutMs }),
  };
}

function durationIn(name: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value > 0 && value <= timeoutMsMax) return value;
  throw new RemusterError('BAD_ARGUMENT', `${name} is a number of milliseconds above 0 and up to ${timeoutMsMax}`);
}

/** Whether the numbers in it name anything is for the router to say. */
function routeIn(value: unknown): Route {
  const fields = typeof value === 'object' && value !== null ? (value as CommandArguments) : {};
  const [mode, ...more] = Object.keys(fields);
  if (mode !== undefined && more.length === 0) {
    const of = fields[mode];
    if (mode === 'hash' && (typeof of === 'string' || typeof of === 'number')) return { hash: of };
    if (mode === 'id' && typeof of === 'number') return { id: of };
    if (mode === 'node' && typeof of === 'string') return { node: of };
    if (mode === 'range' && isPair(of)) return { range: of };
    if (of === true && mode === 'broadcast') return { broadcast: true };
    if (of === true && mode === 'local') return { local: true };
    if (of === true && mode === 'dynamic') return { dynamic: true };
  }
  throw new RemusterError(
    'BAD_ARGUMENT',
    'a route is one of {"hash": key}, {"id": 3}, {"range": [first, count]}, {"broadcast": true}, {"node": name}, {"local": true}, {"dynamic": true}',
  );
}

function isPair(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every((item) => typeof item === 'number');
}

function isFlow(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

/** All items, because an answer is one. What is longer is for clients, which read item by item. */
async function gathered(flow: AsyncIterable<unknown>): Promise<readonly unknown[]> {
  const items: unknown[] = [];
  let characters = 0;
  for await (const item of flow) {
    const shown = toPlainJson(item);
    characters += JSON.stringify(shown).length;
    if (items.length === itemsMax || characters > itemsCharactersMax) {
      throw new RemusterError('TOO_LARGE', 'the flow is too long for one answer');
    }
    items.push(shown);
  }
  return items;
}

/**
 * Whole numbers without a bound become their digits, bytes become base64, dates become ISO 8601, and what has no
 * value is null: undefined, numbers that are not finite, dates that are none.
 */
export function toPlainJson(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value !== 'object') return value;
  if (value instanceof Uint8Array) return encodeBase64(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (Array.isArray(value)) return value.map(toPlainJson);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toPlainJson(item)]));
}
