/**
 * `POST /v1/call`: arguments and result as JSON. The items of a generator method are collected into one bounded reply.
 */
import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import type { CallSession, ContainerCalls } from '../../containers/contract.ts';
import type { CallOptions, Route } from '../../containers/module.ts';
import { argumentsOfBody } from '../admin/admin-context.ts';
import { objectReply } from './replies.ts';
import { encodeBase64 } from '../../base/base64.ts';
import type { CommandArguments } from '../control-plane/command-arguments.ts';

/** Bounds of a collected result stream. */
export const collectedItemsMax = 10_000;
export const collectedCharactersMax = 10_000_000;
/** Less than the time after which the server ends a request. */
const callTimeoutMsMax = 110_000;

const shape =
  '{"pool", "method", "args"?: [...], "route": {hash, id, range, broadcast, node, local or dynamic}, "callId"?, "timeoutMs"?}';

/** `calls` is undefined on a node without containers, and throws while the node accepts none. */
export function callRoutes(calls: () => Pick<ContainerCalls, 'session'> | undefined): readonly ApiRoute[] {
  let session: CallSession | undefined;
  const handler: ApiRoute['handler'] = async (request) => {
    const accepted = calls();
    session ??= accepted?.session('http');
    return await call(session, request);
  };
  return [{ method: 'POST', path: '/v1/call', handler }];
}

async function call(session: CallSession | undefined, { body }: ApiRequest): Promise<ApiResponse> {
  if (session === undefined)
    throw new RemusterError('PRECONDITION', 'this node does not take part in containers', 'no');
  const fields = argumentsOfBody(body);
  const { pool, method, args = [] } = fields;
  if (typeof pool !== 'string' || typeof method !== 'string' || !Array.isArray(args)) {
    throw new RemusterError('BAD_ARGUMENT', `the body must be ${shape}`);
  }
  const containerCall = { pool, method, args: args as readonly unknown[], route: routeIn(fields['route']) };
  const result = await session.call(containerCall, optionsIn(fields));
  return objectReply({ result: isResultStream(result) ? await collectItems(result) : toPlainJson(result) });
}

function optionsIn({ callId, timeoutMs, retryTimeoutMs }: CommandArguments): CallOptions {
  if (callId !== undefined && typeof callId !== 'string')
    throw new RemusterError('BAD_ARGUMENT', 'callId must be text');
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
  if (typeof value === 'number' && value > 0 && value <= callTimeoutMsMax) return value;
  throw new RemusterError(
    'BAD_ARGUMENT',
    `${name} must be a number of milliseconds above 0 and up to ${callTimeoutMsMax}`,
  );
}

/** Checks the shape; the router checks whether the container or node exists. */
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
    'route must be one of {"hash": key}, {"id": 3}, {"range": [first, count]}, {"broadcast": true}, {"node": name}, {"local": true}, {"dynamic": true}',
  );
}

function isPair(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every((item) => typeof item === 'number');
}

function isResultStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

/** Collects all items. Clients read longer streams item by item. */
async function collectItems(stream: AsyncIterable<unknown>): Promise<readonly unknown[]> {
  const items: unknown[] = [];
  let characters = 0;
  for await (const item of stream) {
    const json = toPlainJson(item);
    characters += JSON.stringify(json).length;
    if (items.length === collectedItemsMax || characters > collectedCharactersMax) {
      throw new RemusterError(
        'TOO_LARGE',
        `the result stream exceeds ${collectedItemsMax} items or ${collectedCharactersMax} characters: read it with a client`,
      );
    }
    items.push(json);
  }
  return items;
}

/**
 * A bigint becomes its digits, bytes become base64, a date becomes ISO 8601. Values without a JSON form become null:
 * undefined, numbers that are not finite, invalid dates.
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
