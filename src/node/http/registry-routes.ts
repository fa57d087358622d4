/** Routes of the registry: read, conditional write, watch. Values are text, or hexadecimal and marked as such. */
import { RemusterError, isRemusterError, toPromise } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import {
  type RangeResult,
  type RegistryCompare,
  type RegistryEpoch,
  type RegistryOp,
  type TransactionResult,
  type WatchStart,
  onlyKey,
  registryLimits,
  withPrefix,
} from '../../base/registry.ts';
import { objectReply } from './replies.ts';
import { requireControlPlane, argumentsOfBody } from '../admin/admin-context.ts';
import { reasonArgument } from '../control-plane/command-arguments.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { changesToJson, entryToJson } from './registry-json.ts';
import { backupRoutes } from './backup-routes.ts';

const encoder = new TextEncoder();

export function registryRoutes(core: NodeCore, cluster: string): readonly ApiRoute[] {
  return [
    { method: 'GET', path: '/v1/registry', handler: async (request) => await read(core, request) },
    { method: 'PUT', path: '/v1/registry', handler: async (request) => await put(core, request) },
    { method: 'DELETE', path: '/v1/registry', handler: async (request) => await remove(core, request) },
    { method: 'GET', path: '/v1/registry/watch', handler: async (request) => watch(core, request) },
    ...backupRoutes(core, cluster),
  ];
}

/** `?key=` one key, `?prefix=` all that begin with it; `&limit=`, `&after=KEY` for the next page, `&stale`. */
async function read(core: NodeCore, { query }: ApiRequest): Promise<ApiResponse> {
  const { key, prefix = '', after } = query;
  const limit = wholeIn(query, 'limit', { min: 1, max: registryLimits.rangeLimitMax });
  const all = key === undefined ? withPrefix(prefix) : onlyKey(key);
  const range = after === undefined || after < all.from ? all : { from: `${after}\0`, to: all.to };
  const options = { limit: limit ?? registryLimits.rangeLimitMax, stale: query['stale'] !== undefined };
  const { registry } = requireControlPlane(core);
  const found = await toPromise<RangeResult>((done) => registry.range(range, options, done));
  const { epoch, revision, more } = found;
  return objectReply({ epoch, revision, more, items: found.entries.map(entryToJson) });
}

/** `{key, value, ifVersion?}`; `ifVersion` 0 means that the key must not exist. */
async function put(core: NodeCore, { body }: ApiRequest): Promise<ApiResponse> {
  const { key, value, ifVersion } = argumentsOfBody(body);
  if (typeof key !== 'string' || key === '' || typeof value !== 'string')
    throw new RemusterError(
      'BAD_ARGUMENT',
      'the body must be {"key": text, "value": text, "ifVersion"?: whole number}',
    );
  return await conditional(core, key, ifVersion, { kind: 'put', key, value: encoder.encode(value) });
}

/** `?key=`, `&ifVersion=`, `&reason=`. */
async function remove(core: NodeCore, { query }: ApiRequest): Promise<ApiResponse> {
  const { key = '' } = query;
  if (key === '') throw new RemusterError('BAD_ARGUMENT', 'key is missing: ?key=');
  const ifVersion = wholeIn(query, 'ifVersion', { min: 0, max: Number.MAX_SAFE_INTEGER });
  requireControlPlane(core).recordAdminEvent('registry-delete', { key, reason: reasonArgument(query) });
  return await conditional(core, key, ifVersion, { kind: 'delete', range: onlyKey(key) });
}

async function conditional(core: NodeCore, key: string, ifVersion: unknown, op: RegistryOp): Promise<ApiResponse> {
  const { registry } = requireControlPlane(core);
  const otherwise = [{ kind: 'read', range: onlyKey(key), limit: 1 }] as const;
  const then = op.kind === 'put' ? [op, otherwise[0]] : [op];
  const transaction = { compare: condition(key, ifVersion), then, otherwise };
  const { succeeded, revision, results } = await toPromise<TransactionResult>((done) =>
    registry.transact(transaction, {}, done),
  );
  const { version = 0 } = results.flatMap((one) => (one.kind === 'read' ? one.entries : []))[0] ?? {};
  if (!succeeded)
    throw new RemusterError(
      'PRECONDITION',
      `${key} has version ${version}, not ${String(ifVersion)}: read it and retry`,
      'no',
    );
  const deleted = results.find((one) => one.kind === 'delete')?.deleted;
  return objectReply({ key, revision, ...(deleted === undefined ? { version } : { deleted }) });
}

function condition(key: string, version: unknown): readonly RegistryCompare[] {
  if (version === undefined) return [];
  if (typeof version !== 'number' || !Number.isSafeInteger(version) || version < 0)
    throw new RemusterError('BAD_ARGUMENT', 'ifVersion must be a whole number, 0 or more');
  return [{ key, target: 'version', is: 'equal', than: version }];
}

function wholeIn(
  query: ApiRequest['query'],
  name: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  const text = query[name];
  if (text === undefined) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new RemusterError('BAD_ARGUMENT', `${name} must be a whole number from ${min} to ${max}`);
}

/**
 * `?prefix=` or `?key=`, from now on or `&from=REVISION` of the epoch `&epoch=`. The first event has
 * revision and epoch of the start; `compacted` is the last one: earlier history is gone, or the epoch has ended.
 */
function watch(core: NodeCore, { query, lastEventId }: ApiRequest): ApiResponse {
  const { registry } = requireControlPlane(core);
  const { prefix = '', key } = query;
  const epoch = query['epoch'] as RegistryEpoch | undefined;
  const range = key === undefined ? withPrefix(prefix) : onlyKey(key);
  const bounds = { min: 1, max: Number.MAX_SAFE_INTEGER - 1 };
  const seen = lastEventId === undefined ? undefined : wholeIn({ lastEventId }, 'lastEventId', { ...bounds, min: 0 });
  const from = seen === undefined ? wholeIn(query, 'from', bounds) : seen + 1;
  return {
    sse: (send) => {
      let stop = (): void => {};
      let isOver = false;
      const fail = (error: unknown): void => {
        if (!isRemusterError(error)) throw error;
        send({ event: 'failed', data: { failed: { code: error.code, message: error.message } } });
      };
      const follow = (start: WatchStart): void => {
        if (isOver || !send({ event: 'from', data: { from: start.revision, epoch: start.epoch } })) return;
        stop = registry.watch(range, start, {
          changed: (changes, revision) => {
            if (!send({ id: String(revision), data: { revision, changes: changesToJson(changes) } })) stop();
          },
          compacted: (oldestRevision) => void send({ event: 'compacted', data: { compacted: { oldestRevision } } }),
        });
      };
      const tryFollow = (start: WatchStart): void => {
        try {
          follow(start);
        } catch (error) {
          fail(error);
        }
      };
      if (from !== undefined) tryFollow({ revision: from, epoch });
      else
        registry.range(range, { limit: 1 }, (outcome) => {
          if (outcome.ok) tryFollow({ revision: outcome.value.revision + 1, epoch: outcome.value.epoch });
          else fail(outcome.error);
        });
      return () => {
        isOver = true;
        stop();
      };
    },
  };
}
