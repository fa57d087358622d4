/** Routes of pools and containers, for this datacenter or `?dc=`. */
import { RemusterError } from '../../base/errors.ts';
import type { ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { type AdminActionName, executeAdminCommand } from '../admin/admin-actions.ts';
import { argumentsOfBody } from '../admin/admin-context.ts';
import { objectReply } from './replies.ts';
import type { NodeCore } from '../core/node-core-types.ts';

type Words = (request: ApiRequest) => object;

export function poolRoutes(core: NodeCore): readonly ApiRoute[] {
  const route = (method: ApiRoute['method'], path: string, act: AdminActionName, words: Words): ApiRoute => ({
    method,
    path,
    handler: async (request) =>
      objectReply(await executeAdminCommand(core, { act, dc: request.query['dc'] }, words(request))),
  });
  return [
    route('GET', '/v1/pools', 'listPools', () => ({})),
    route('POST', '/v1/pools', 'createPool', ({ body }) => argumentsOfBody(body)),
    route('GET', '/v1/pools/:pool', 'showPool', poolWords),
    route('DELETE', '/v1/pools/:pool', 'deletePool', deletionWords),
    route('GET', '/v1/containers/:pool/:id', 'showContainer', containerWords),
    route('GET', '/v1/containers/:pool/:id/explain', 'explainContainer', containerWords),
    route('POST', '/v1/containers/:pool/:id/migrate', 'migrateContainer', (request) => ({
      ...argumentsOfBody(request.body),
      ...containerWords(request),
    })),
  ];
}

/** `?from=` and `?limit=` for pools of very many containers. */
function poolWords({ params: { pool }, query: { from, limit } }: ApiRequest): object {
  return { pool, from: numberIn('the first', from), limit: numberIn('the limit', limit) };
}

/** `?reason=`, and `?dryRun` to see what would go. */
function deletionWords({ params: { pool }, query: { reason, dryRun } }: ApiRequest): object {
  return { pool, reason, dryRun: dryRun !== undefined && dryRun !== 'false' };
}

function containerWords({ params: { pool, id } }: ApiRequest): object {
  return { pool, id: numberIn('the number of a container', id) };
}

function numberIn(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new RemusterError('BAD_ARGUMENT', `${name} is a whole number`);
}
